"""Remedies for unverifiable subjects: which log of which nodes would settle how many, and what writing it costs.

A reason for `unverifiable` names what is not in the evidence. The table below names the log that would have it; a reason that no
log could settle (two requests that overlap, several clients of one name) is no reason to log more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from epochaudit.events.times import DAY_MS
from epochaudit.inventory.inventory import METADATA_LOG, REQUEST_LOG, SERVER_LOG, STATE_CHANGE_LOG, Inventory
from epochaudit.sources.formats import BY_KIND

if TYPE_CHECKING:
    from epochaudit.report.contents import RuleResult

CLIENT_LOG: Final = "client_log"
NO_LOG: Final = "none"
NAMES: Final[Mapping[str, str]] = {
    REQUEST_LOG: "request log",
    STATE_CHANGE_LOG: "state-change.log",
    SERVER_LOG: "server.log and controller.log",
    METADATA_LOG: "metadata log",
    CLIENT_LOG: "clients' logs",
}
COSTS: Final[Mapping[str, str]] = {
    STATE_CHANGE_LOG: "some lines for each partition that changes its leader or ISR; Kafka writes it by default",
    SERVER_LOG: "Kafka writes them by default",
    METADATA_LOG: "nothing: copy __cluster_metadata-0 of one controller",
    CLIENT_LOG: "the consumer's own log at INFO, of Java clients at DEBUG for what they knew of leader epochs",
}
BYTES_OF_A_REQUEST: Final = 1_500  # of a request log in JSON, on average
LIGHT_SHARE: Final = 0.03
"""Of the bytes of a busy cluster's request log, what conf/kafka-log4j*-light.* let through, as measured: docs/collecting.md."""
SHORTEST_SPAN_MS: Final = 1_000  # from which a rate can be computed

# The first pattern that a reason matches decides; `test_remedies` holds that each reason of the catalogue matches one.
_SETTLED_BY: Final[tuple[tuple[str, str], ...]] = (
    (REQUEST_LOG, r"\(request log\)"),
    (METADATA_LOG, r"\(metadata log\b"),
    (STATE_CHANGE_LOG, "state-change"),
    (SERVER_LOG, r"\((?:server|controller)\.log"),
    (
        NO_LOG,
        "change[sd] just before|just before, (?:perhaps|and)|overlap|while the request was|at that moment|about when the request came"
        "|just being started|just then|be placed|come back|came back|several consumers|can't be relied on|no topic ids"
        "|no topic id shows|several topics|had several|cannot be distinguished|distinguishes the topics|neither topic ids|apart"
        "|names no leader epoch|left the offset|no leader epoch to compare|may have advanced|lines of one client alone|may have been copied"
        "|was copied from|was refused in the end|not certain|clocks cannot|clock relates|state no broker epoch|states who"
        "|restarted since|started anew|below metadata.version|of a type or version|at another coordinator|evidence ends"
        "|a follower or a consumer asked|on another disk|between log directories|between the copies"
        "|rolled back in between|remote log was to be deleted"
        "|segments were copied|beside the segment|was sent again|another coordinator was asked|another broker led",
    ),
    (CLIENT_LOG, "client knew|client still knew|Java consumer|in its log|client was|consumer had got"),
    (
        METADATA_LOG,
        "metadata log|metadata.version|earlier records|first record|record's|offsets of the|records between|raft epoch|record that"
        "|earlier states|registration of (?:a member|the broker|the leader)|broker's registration|incarnation is not",
    ),
    (
        SERVER_LOG,
        "server.log|controller.log|log started then|Kafka version|version of the broker|depends on its version"
        "|release is not|release$|release is|release of the coordinator"
        "|epoch cache|leader epochs, and be truncated|log has leader epochs|restarted in between|known ineligible|ISR changes"
        "|beginning deleted|stray replica|unclean elections were permitted|brokers were live|known as|broker's own epoch",
    ),
    (
        STATE_CHANGE_LOG,
        "state-change|starts at leader epoch|the leader epoch that the broker|starts? (?:is|of)|leader epoch starts|epoch of the "
        "broker starts|epoch in which the broker led|whether the broker led|who led|begun|began the epoch|replica starts|installation"
        "|LeaderAndIsr|UpdateMetadata|controller(?:'s lines)? |control request|ISR|topic id|later leader epoch|elections?|topic was"
        "|new topic|replicas of the|replica list|reassignment|leader epochs? (?:of the partition )?(?:in between )?is (?:not )?recorded"
        "|leader epoch of a|writes were acknowledged|explain|is no replica|were no replica|created (?:it )?again|been removed"
        "|topic existed|topic of the id|recovering|deletion|newer (?:leader|controller) epoch|name was deleted",
    ),
    (
        REQUEST_LOG,
        "request|fetch|answer|commit|heartbeat|high watermark|gave out|position|delivered|stable offset|records were|leader epoch",
    ),
)


@dataclass(frozen=True)
class Remedy:
    """A log that would settle something. settles: at most so many subjects of all `unverifiable`. nodes: those that lack it.

    nodes is empty where each has the log: what is missing is older than it, or was not logged.
    """

    source: str
    name: str
    nodes: tuple[int, ...]
    settles: int
    unverifiable: int
    cost: str

    def __str__(self) -> str:
        of = f" of node{'s' if len(self.nodes) > 1 else ''} {', '.join(map(str, self.nodes))}" if self.nodes else ""
        more = "" if self.nodes else ", from further back or without gaps,"
        return f"{self.name}{of}{more} would settle up to {self.settles:,} of {self.unverifiable:,} unverifiable"


def settled_by(reason: str) -> str:
    """The source of the log that would have settled a subject that is unverifiable for this reason; NO_LOG if none."""
    for source, pattern in _SETTLED_BY:
        if re.search(pattern, reason):
            return source
    return NO_LOG


def remedies(inventory: Inventory, rules: Iterable[RuleResult], span_ms: int) -> tuple[Remedy, ...]:
    """Remedies, the most useful first. span_ms: milliseconds from the first to the last logged request."""
    settles: Counter[str] = Counter()
    for rule in rules:
        for reason, count in rule.unverifiable_reasons.items():
            settles[settled_by(reason)] += count
    total = settles.total()
    del settles[NO_LOG]
    lacking = {source: tuple(n.node for n in inventory.nodes if source in n.missing_logs) for source in settles}
    found = (
        Remedy(source, NAMES[source], lacking[source], count, total, cost_of(source, inventory, span_ms))
        for source, count in settles.items()
    )
    return tuple(sorted(found, key=lambda one: (-one.settles, one.source)))


def cost_of(source: str, inventory: Inventory, span_ms: int) -> str:
    """What it costs to write a log, at the capture's own rate where it has one; of the request log whole, and light.

    Of nodes whose request log is light, it is the light one's own rate, and the whole one's follows from that.
    """
    if source != REQUEST_LOG:
        return COSTS[source]
    logs = [file for file in inventory.files if BY_KIND[file.kind].source == REQUEST_LOG and file.lines]
    requests, size = sum(file.lines for file in logs), sum(file.bytes for file in logs)
    settings = f"conf/kafka-log4j*-light.*, on busy clusters about {LIGHT_SHARE:.0%} of it (docs/collecting.md)"
    if not requests or span_ms < SHORTEST_SPAN_MS:
        return f"about {BYTES_OF_A_REQUEST / 1000:.1f} kB a request; with {settings}"
    light_nodes = {node for _, node in inventory.light_nodes}  # a file does not name its cluster
    light = sum(file.bytes for file in logs if file.node in light_nodes)
    whole = (size - light + light / LIGHT_SHARE) * DAY_MS / span_ms
    stored = f"{size / requests / 1000:.1f} kB a request as stored here"
    rate = f"at this capture's rate {_volume(whole)} a day; with {settings}: {_volume(whole * LIGHT_SHARE)}"
    return f"{stored}: {rate}"


def _volume(size: float) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"
