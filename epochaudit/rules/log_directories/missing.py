"""What a judgement about log directories lacks if a part of the metadata log is missing."""

from __future__ import annotations

from typing import Final

REGISTRATION_UNKNOWN: Final = "the broker's registration is not in the evidence (metadata log)"
