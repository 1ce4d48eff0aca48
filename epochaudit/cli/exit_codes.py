"""The process's exit codes; it returns no others."""

from typing import Final

CLEAN: Final = 0  # nothing at or above the --fail-on threshold
INCOMPLETE: Final = 3  # nothing found, but nothing was judged, or evidence is missing that other evidence implies
FINDINGS: Final = 1  # at least one verdict at or above the threshold
COULD_NOT_RUN: Final = 2  # bad usage, no readable input, internal error
