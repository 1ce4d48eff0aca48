"""The warehouse: a directory of Delta tables that is filled night by night and that a dashboard reads."""

from epochaudit.warehouse.nightly import audited, reported
from epochaudit.warehouse.recorded import recorded_in
from epochaudit.warehouse.tables import WarehouseError, plain_bytes_in

__all__ = ["WarehouseError", "audited", "plain_bytes_in", "recorded_in", "reported"]
