"""What the process says to its caller; nothing else is ever returned."""

from typing import Final

CLEAN: Final = 0  # nothing at or above the --fail-on threshold
FINDINGS: Final = 1  # at least one verdict at or above the threshold
COULD_NOT_RUN: Final = 2  # bad usage, no readable input, internal error
