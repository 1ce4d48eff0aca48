"""Reasons of `unverifiable` where requests are missing from a request log. Several rules give each of them."""

from __future__ import annotations

from typing import Final

CONTROL_REQUESTS: Final = "a control request in between is missing, perhaps one that deleted the replica (request log)"
SHARE_STATE_REQUESTS: Final = (
    "requests to the coordinator are missing in between, perhaps one that deleted the state (request log)"
)
