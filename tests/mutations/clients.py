"""What clients write into their own logs."""

from __future__ import annotations

import re

from tests.mutations.editing import Copy, Line, NotThereError
from tests.mutations.fetching import ZOOKEEPER
from tests.mutations.planting import Place, mutation

_SEEN = re.compile(
    r"Updating last seen epoch for partition (?P<topic>[\w.-]+)-(?P<partition>\d+) from (?P<before>\d+) to epoch (?P<after>\d+) "
)


@mutation("MD-01", ZOOKEEPER, fetches=False)
def older_epoch_taken_over(copy: Copy) -> Place:
    """A client takes an older leader epoch over from metadata than the one that it had seen."""
    log = copy.log("clients/steady.log")
    for index, text in enumerate(log.lines):
        match = _SEEN.search(text or "")
        if text and match and match["before"] < match["after"]:
            found = Line(log, index, text, match)
            step = f"from {match['after']} to epoch {match['before']} "
            found.replace(text.replace(f"from {match['before']} to epoch {match['after']} ", step))
            return Place(topic=match["topic"], partition=int(match["partition"]), evidence=step)
    raise NotThereError("the client's log tells of no newer leader epoch")
