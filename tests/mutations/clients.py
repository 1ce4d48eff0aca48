"""What clients write into their own logs."""

from __future__ import annotations

import re

from tests.mutations.editing import Copy, Line, NotThereError
from tests.mutations.fetching import ZOOKEEPER
from tests.mutations.planting import Place, mutation

_SEEN = re.compile(
    r"Updating last seen epoch for partition (?P<topic>[\w.-]+)-(?P<partition>\d+) from (?P<before>\d+) to epoch (?P<after>\d+) "
)

_HINT = re.compile(
    r"For (?P<topic>[\w.-]+)-(?P<partition>\d+) updating leader information, .*, leaderEpoch=Optional\[(?P<epoch>\d+)\]"
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
    raise NotThereError("the client's log has no newer leader epoch")


@mutation("MD-05", ZOOKEEPER, fetches=False)
def hint_at_the_known_epoch_taken(copy: Copy) -> Place:
    """A client takes a hint at the leader epoch that it knew already."""
    log = copy.log("clients/steady.log")
    for index, text in enumerate(log.lines):
        match = _HINT.search(text or "")
        if text and match:
            known = f"leaderEpoch=Optional[{int(match['epoch']) - 1}]"
            Line(log, index, text, match).replace(text.replace(f"leaderEpoch=Optional[{match['epoch']}]", known))
            return Place(topic=match["topic"], partition=int(match["partition"]), evidence=known)
    raise NotThereError("the client's log has no hint that was taken")
