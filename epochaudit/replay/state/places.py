"""Places in a node's logs as numbers, so that one aggregation can cover all files of the node.

Logs that are rotated by size have thousands of files. One aggregation buffer per file would cost as much as the rows, and a
buffer of fixed width cannot hold a file name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.views import PLACE, carried_ref
from epochaudit.spark.memo import checkpointed

FILE_BITS: Final = 40  # a file has at most a terabyte

PLACE_OF_NODE: Final = ("file_order", *PLACE)
"""Columns of a row that an aggregation by node has to keep for `with_refs`."""
_LOG: Final = ("cluster", "node", "file_order", "file")


def at() -> Column:
    """Place in a node's own log order as one number. Needs: file_order, byte_offset.

    Clock: line order of one source of one node. Values of two nodes or two sources are not comparable.
    """
    return F.shiftleft(F.col("file_order").cast("bigint"), FILE_BITS) + F.col("byte_offset")


def then_by_place(value: Column) -> Column:
    """A whole number of at most 64 bits and `at()` as one number: rows of equal values are in the order of their places.

    Needs: file_order, byte_offset; rows of one source of one node. A decimal has a fixed width, so that an aggregation by it stays
    a hash aggregation; by a struct it would sort all rows. Over 500,000 rows of Fetch this takes 0.6 s more CPU than the value alone if it
    is a column of its own, 1.1 s more if five aggregates name it, and a struct 1.7 s more.
    """
    return value.cast("decimal(19,0)") * F.lit(str(2**63)).cast("decimal(19,0)") + at()


def of_first(names: Iterable[str], order: Column | str, prefix: str = "") -> list[Column]:
    """Aggregates: the columns of the row that is first in this order, as `<prefix><name>`. Rows whose order is null do not count.

    Of rows of equal order Spark takes the one that it reads last, and a warehouse reads in another order than an audit. So
    `order` must be total among the rows of a group that differ in these columns: `at()`, or `then_by_place`.
    """
    return [F.min_by(name, order).alias(prefix + name) for name in names]


def of_last(names: Iterable[str], order: Column | str, prefix: str = "") -> list[Column]:
    """As `of_first`, of the row that is last in this order.

    The last one of the rows with the lowest or the highest value remains when runs of Fetch rows are folded:
    `then_by_place(-value)` or `then_by_place(value)`.
    """
    return [F.max_by(name, order).alias(prefix + name) for name in names]


def with_refs(rows: DataFrame, events: DataFrame, *which: str) -> DataFrame:
    """Adds `<which>_ref`, the reference to the row that an aggregation by node selected; null without one. Grain unchanged.

    Needs: cluster, node, and the columns of PLACE_OF_NODE as `<which>_<name>`, from rows of request logs.
    """
    for prefix in which:
        log = {name: f"{prefix}_log_{name}" for name in _LOG}
        same = [F.col(name).eqNullSafe(F.col(log[name])) for name in ("cluster", "node")]
        same.append(F.col(f"{prefix}_file_order") == F.col(log["file_order"]))
        logs = _request_logs(events).select(*(F.col(name).alias(renamed) for name, renamed in log.items()))
        rows = rows.join(F.broadcast(logs), same, "left")
    refs = {
        f"{prefix}_ref": F.when(F.col(f"{prefix}_byte_offset").isNotNull(), carried_ref(prefix, f"{prefix}_log_file"))
        for prefix in which
    }
    return rows.withColumns(refs).drop(*(f"{prefix}_log_{name}" for prefix in which for name in _LOG))


@checkpointed
def _request_logs(events: DataFrame) -> DataFrame:
    """One row per request log: cluster, node, file_order, file."""
    return events.where(F.col("source") == "request_log").select(*_LOG).distinct()
