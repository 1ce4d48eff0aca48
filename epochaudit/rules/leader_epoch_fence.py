"""Shared parts of the rules about the leader epoch fence of KIP-320 for Fetch, ListOffsets and OffsetForLeaderEpoch.

A broker compares the request's leader epoch with its own. It must answer 74 to an older one and 75 to a newer one.

The rules derive from the classes below: FF-01 and FF-02 over the frame `fetches`, LO-01, LO-02, OE-01 and OE-02 over
`epoch_queries`. Both frames have the columns of `with_held_epochs` (`replay/state/held_epochs.py`): held_min and held_max are
the lowest and the highest leader epoch in which the request may have been processed; and was_deleted of `with_deletions`
(`replay/state/deleted_replicas.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.times import REQUEST_LINE_LAG_MS
from epochaudit.events.views import holds
from epochaudit.kafka.errors import Errors
from epochaudit.replay.data_plane.fetches import EPOCH_AMBIGUOUS, EPOCH_UNKNOWN, sessions_lose_epochs
from epochaudit.rules.rule import (
    MEDIUM,
    Branch,
    OwnSentences,
    Rule,
    exposed,
    fenced,
    first_of,
    passed,
    unverifiable,
    violation,
)

DELETED: Final = "the broker had deleted the replica, and no line shows that it created it again"
HAD_DELETED: Final = "broker {node} had deleted its replica of {topic}-{partition}"
EPOCH_LINE_MISSING: Final = "the broker's log has no line of a later leader epoch that other lines state"


def _refused_the_wrong_way() -> tuple[Column, Column]:
    """74 for a newer epoch, and 75 for an older one. The rule about the epoch judges each, not the rule about the code.

    While the broker creates the replica again, the epochs that its lines state decide nothing: the rule about the code judges.
    """
    epoch, code = col("current_leader_epoch"), col("error_code")
    newer = (code == Errors.FENCED_LEADER_EPOCH) & (epoch > col("held_max"))
    older = (code == Errors.UNKNOWN_LEADER_EPOCH) & (epoch < col("held_min"))
    return newer & ~col("creating"), older & ~col("creating")


def may_be_older() -> Column:
    """Stated epochs that the rules about older ones judge: served, refused with 74, or older and refused with 75."""
    newer_refused_as_old, older_refused_as_new = _refused_the_wrong_way()
    judged = col("error_code").isin(Errors.NONE, Errors.FENCED_LEADER_EPOCH) | older_refused_as_new
    return (col("current_leader_epoch") >= 0) & judged & ~holds(newer_refused_as_old)


def may_be_newer() -> Column:
    """Stated epochs that the rules about newer ones judge: served, refused with 75, or newer and refused with 74."""
    newer_refused_as_old, older_refused_as_new = _refused_the_wrong_way()
    judged = col("error_code").isin(Errors.NONE, Errors.UNKNOWN_LEADER_EPOCH) | newer_refused_as_old
    return (col("current_leader_epoch") >= 0) & judged & ~holds(older_refused_as_new)


@dataclass(frozen=True)
class Lines:
    """The `because` lines of a rule about the fence: the leader epoch that the broker held, and the request (`asked`)."""

    asked: str

    @property
    def held(self) -> tuple[str, ...]:
        """For a broker whose leader epoch is recorded."""
        return (
            "broker {node} held leader epoch {held_max} of {topic}-{partition}",
            "it had held {held_earlier} until then: the leader epoch changed while it worked on the request",
            self.asked,
        )

    @property
    def creating(self) -> tuple[str, ...]:
        """For a broker that created the replica again. It has leader epoch -1 until it has a log."""
        return ("about that time broker {node} created the replica of {topic}-{partition} again", self.asked)

    @property
    def deleted(self) -> tuple[str, ...]:
        """For a broker that had deleted the replica."""
        return (HAD_DELETED, self.asked)

    def not_recorded(self, answer: str | None = None) -> tuple[str, ...]:
        """For a broker whose leader epoch at the request's arrival is unknown; `answer`: what its answer shows of it."""
        first = "the first leader epoch of {topic}-{partition} that the log of broker {node} states, about that time, is {held_min}"
        return (first, self.asked) if answer is None else (first, self.asked, answer)


def _of_deleted(lines: Lines, refused: Column, by_answer: str, held: str) -> tuple[Branch, ...]:
    """The branches for a replica that the broker had deleted. `held`: what a refusal shows of the epoch that it then held."""
    served = col("error_code") == Errors.NONE
    return (
        unverifiable(col("was_deleted") & served, DELETED, expected=by_answer, because=lines.deleted),
        fenced(col("was_deleted") & refused, expected=by_answer, because=(*lines.deleted, held)),
    )


def _not_recorded(lines: Lines, by_answer: str) -> Branch:
    return unverifiable(
        ~col("held_complete"),
        "the leader epoch that the broker held is not recorded",
        expected=by_answer,
        because=lines.not_recorded(),
    )


def older_than_held(lines: Lines, *, hinted: Column | None = None, lost: tuple[Branch, ...] = ()) -> tuple[Branch, ...]:
    """The branches for an older epoch, in order: the first whose condition holds is the verdict.

    `hinted`: a newer epoch in the answer. `lost`: the branches of versions that lose the epoch.
    """
    epoch, code = col("current_leader_epoch"), col("error_code")
    just_before = (epoch > col("held_just_before")) | ((code == Errors.NONE) & (epoch == col("held_just_before")))
    refused = code == Errors.FENCED_LEADER_EPOCH
    by_answer = "error {FENCED_LEADER_EPOCH} if leader epoch {current_leader_epoch} is older than the broker's"
    held_newer = "by its answer, the broker held a newer one"
    return (
        *_of_deleted(lines, refused, by_answer, held_newer),
        passed(
            (code == Errors.NONE)
            & (epoch >= col("held_min")),  # what a broker held before its log begins was older still
            expected="an answer, as leader epoch {current_leader_epoch} is not older than the broker's, {held_min}",
            because=lines.held,
        ),
        *_refused_as_older(lines, by_answer, held_newer, hinted),
        _not_recorded(lines, by_answer),
        unverifiable(
            just_before,
            "the broker's epoch changed just before, and request lines may be written late",
            expected=by_answer,
            because=(*lines.held, "half a second before it held {held_just_before}"),
        ),
        violation(
            code == Errors.UNKNOWN_LEADER_EPOCH,
            expected="error {FENCED_LEADER_EPOCH}, not {UNKNOWN_LEADER_EPOCH}, for leader epoch {current_leader_epoch}, as the broker held"
            " {held_max}",
            because=lines.held,
        ),
        *lost,
        violation(because=lines.held),  # served, as the rest of what `may_be_older` selects
    )


def _refused_as_older(lines: Lines, by_answer: str, held_newer: str, hinted: Column | None) -> tuple[Branch, ...]:
    """The branches for what was refused as older. `hinted` as in `older_than_held`."""
    epoch, refused = col("current_leader_epoch"), col("error_code") == Errors.FENCED_LEADER_EPOCH
    own = [] if hinted is None else [
        fenced(
            refused & (epoch < hinted),
            expected=by_answer,
            because=(lines.asked, "the answer names the newer leader epoch {hinted_leader_epoch}"),
        )
    ]  # fmt: skip
    return (
        fenced(refused & (epoch < col("held_max")), because=lines.held),
        *own,
        fenced(
            refused & ~col("held_complete"),
            expected=by_answer,
            because=lines.not_recorded(held_newer),
        ),
        fenced(
            refused & col("epoch_line_missing"),
            expected=by_answer,
            because=(
                lines.asked,
                "the broker's log states {held_max} at last, but other logs a later leader epoch: by its answer, it held that one",
            ),
        ),
        unverifiable(
            refused & col("log_ended"),
            "the broker's state-change.log ends before the request: it may have begun a later leader epoch",
            expected=by_answer,
            because=lines.held,
        ),
        unverifiable(
            refused & col("creating"),
            "the broker was creating the replica, and a follower's leader epoch takes effect before its line",
            expected=by_answer,
            because=lines.creating,
        ),
        violation(
            refused,
            expected="no error {FENCED_LEADER_EPOCH}, as leader epoch {current_leader_epoch} is not older than the broker's, {held_max}",
            because=lines.held,
        ),
    )


def newer_than_held(lines: Lines, *, may_refuse: Column, lost: tuple[Branch, ...] = ()) -> tuple[Branch, ...]:
    """The branches for a newer epoch. `may_refuse`: 75 is right at the broker's own epoch, too. `lost` as in `older_than_held`."""
    epoch, code = col("current_leader_epoch"), col("error_code")
    refused = code == Errors.UNKNOWN_LEADER_EPOCH
    by_answer = "error {UNKNOWN_LEADER_EPOCH} if leader epoch {current_leader_epoch} is newer than the broker's"
    held_older = "by its answer, the broker held an older one"
    return (
        *_of_deleted(lines, refused, by_answer, held_older),
        passed(
            (code == Errors.NONE) & (epoch <= col("held_max")) & (col("held_complete") | (epoch >= col("held_min"))),
            expected="an answer, as leader epoch {current_leader_epoch} is not newer than the broker's, {held_max}",
            because=lines.held,
        ),
        *_refused_as_newer(lines, by_answer, held_older, may_refuse),
        violation(
            (code == Errors.NONE) & col("unstarted"),
            expected="error {UNKNOWN_LEADER_EPOCH} for any leader epoch, until the broker has started one for the replica",
            because=lines.creating,
        ),
        _not_recorded(lines, by_answer),
        unverifiable(
            col("epoch_line_missing"),
            EPOCH_LINE_MISSING,
            expected=by_answer,
            because=lines.held,
        ),
        violation(
            refused,
            expected="no error {UNKNOWN_LEADER_EPOCH}, as leader epoch {current_leader_epoch} is not newer than the broker's, {held_max}",
            because=lines.held,
        ),
        violation(
            code == Errors.FENCED_LEADER_EPOCH,
            expected="error {UNKNOWN_LEADER_EPOCH}, not {FENCED_LEADER_EPOCH}, for leader epoch {current_leader_epoch}, as the broker held"
            " {held_max}",
            because=lines.held,
        ),
        *lost,
        violation(
            col("creating"),
            expected="error {UNKNOWN_LEADER_EPOCH} for leader epoch {current_leader_epoch}, as the broker had started none above"
            " {held_max}",
            because=lines.creating,
        ),
        violation(because=lines.held),  # served, as the rest of what `may_be_newer` selects
    )


def _refused_as_newer(lines: Lines, by_answer: str, held_older: str, may_refuse: Column) -> tuple[Branch, ...]:
    """The branches for what was rightly refused as newer. `may_refuse` as in `newer_than_held`."""
    epoch, refused = col("current_leader_epoch"), col("error_code") == Errors.UNKNOWN_LEADER_EPOCH
    return (
        fenced(
            refused & col("creating"),
            expected="error {UNKNOWN_LEADER_EPOCH} for any leader epoch, until the broker has started one for the replica",
            because=lines.creating,
        ),
        fenced(
            refused & (epoch > col("held_min")),
            expected="error {UNKNOWN_LEADER_EPOCH} for leader epoch {current_leader_epoch}, as the broker held {held_min}",
            because=lines.held,
        ),
        fenced(
            refused & ~col("held_complete"),
            expected=by_answer,
            because=lines.not_recorded(held_older),
        ),
        passed(
            refused & may_refuse,
            expected="an answer, or error {UNKNOWN_LEADER_EPOCH}, as the follower may not be among the replicas that the broker knows",
            because=lines.held,
        ),
        passed(
            refused & ~_begun_long_before(),
            expected="an answer, or error {UNKNOWN_LEADER_EPOCH} where the broker is about to begin leader epoch {current_leader_epoch}",
            because=lines.held,
        ),
    )


def _begun_long_before() -> Column:
    """The broker had held one leader epoch for longer than request lines may be late: it was about to begin none."""
    settled = (col("held_min") == col("held_max")) & (col("held_just_before") == col("held_min"))
    return holds(settled & (col("held_ref.time_ms") < col("arrival_ms") - REQUEST_LINE_LAG_MS))


def _of_session(refusal: Errors, comparison: str) -> tuple[Branch, ...]:
    """The branches for a Fetch that left the partition to its session, if the session's leader epoch is uncertain."""
    sentences: OwnSentences = {
        "expected": f"error {refusal.text} if the leader epoch that the fetch session held is {comparison} than the broker's",
        "observed": "error {error_code} for the leader epoch that the fetch session held",
        "because": (
            "{client_id} left {topic}-{partition} to its fetch session, and broker {node} answered {error_code}",
        ),
    }
    return (
        fenced(_session_uncertain() & (col("error_code") == refusal), **sentences),
        unverifiable(
            col("epoch_source") == EPOCH_UNKNOWN,
            "the fetch session began before the capture, or requests of it are not recorded",
            **sentences,
        ),
        unverifiable(
            col("epoch_source") == EPOCH_AMBIGUOUS,
            "the fetch session came back to an epoch that it had stated before",
            **sentences,
        ),
    )


def _session_uncertain() -> Column:
    return col("epoch_source").isin(EPOCH_UNKNOWN, EPOCH_AMBIGUOUS)


class _FetchRule(Rule):
    """A rule about the fence of Fetch."""

    lines = Lines(
        "{client_id} fetched in leader epoch {current_leader_epoch}, as its {epoch_source} states, and was answered {error_code}"
    )
    evidence = {
        "the Fetch request and its answer": "fetch_ref",
        "the request of its session that states the leader epoch": "session_ref",
        "the leader epoch the broker held": "held_ref",
    }
    observed = "error {error_code} for leader epoch {current_leader_epoch}"
    because = lines.held

    def left_to_session(self, refusal: Errors) -> Column:
        """Fetches of a session that may have held any epoch, served or refused."""
        return _session_uncertain() & col("error_code").isin(Errors.NONE, refusal)

    def lost_by_session(self) -> tuple[Branch, ...]:
        """The branches of the versions whose sessions lose the leader epoch, for what was served wrongly."""
        return (
            exposed(sessions_lose_epochs(), "KAFKA-9338: incremental fetch sessions lose the leader epoch"),
            unverifiable(
                sessions_lose_epochs().isNull(),
                "the version of the broker is not in the evidence",
                expected=f"{self.expected}, unless its release loses the epoch in fetch sessions (KAFKA-9338)",
            ),
        )

    def severity_of(self) -> Column | None:
        return F.when(col("replica_id") < 0, MEDIUM)


class OlderEpochFetchRule(_FetchRule):
    """A Fetch in an older leader epoch."""

    expected = "error {FENCED_LEADER_EPOCH} for leader epoch {current_leader_epoch}, as the broker held {held_max}"

    def applies(self) -> Column:
        return may_be_older() | self.left_to_session(Errors.FENCED_LEADER_EPOCH)

    def verdict(self) -> tuple[Branch, ...]:
        *branches, last = older_than_held(self.lines, hinted=col("hinted_leader_epoch"), lost=self.lost_by_session())
        return first_of(*_of_session(Errors.FENCED_LEADER_EPOCH, "older"), *branches, otherwise=last)


class NewerEpochFetchRule(_FetchRule):
    """A Fetch in a newer leader epoch."""

    expected = "error {UNKNOWN_LEADER_EPOCH} for leader epoch {current_leader_epoch}, as the broker held {held_max}"

    def applies(self) -> Column:
        return may_be_newer() | self.left_to_session(Errors.UNKNOWN_LEADER_EPOCH)

    def verdict(self) -> tuple[Branch, ...]:
        by_follower = col("replica_id") >= 0  # Partition.followerReplicaOrThrow
        *branches, last = newer_than_held(self.lines, may_refuse=by_follower, lost=self.lost_by_session())
        return first_of(*_of_session(Errors.UNKNOWN_LEADER_EPOCH, "newer"), *branches, otherwise=last)


class _QueryRule(Rule):
    """A rule about the fence of ListOffsets or OffsetForLeaderEpoch."""

    api: str
    lines = Lines("{client_id} asked in leader epoch {current_leader_epoch}, and was answered {error_code}")
    evidence = {
        "the request and its answer": "query_ref",
        "the leader epoch the broker held": "held_ref",
    }
    observed = "error {error_code} for leader epoch {current_leader_epoch}"
    because = lines.held


class OlderEpochQueryRule(_QueryRule):
    """A query in an older leader epoch."""

    expected = "error {FENCED_LEADER_EPOCH} for leader epoch {current_leader_epoch}, as the broker held {held_max}"

    def applies(self) -> Column:
        return (col("event_type") == self.api) & may_be_older()

    def verdict(self) -> tuple[Branch, ...]:
        *branches, last = older_than_held(self.lines)
        return first_of(*branches, otherwise=last)


class NewerEpochQueryRule(_QueryRule):
    """A query in a newer leader epoch."""

    expected = "error {UNKNOWN_LEADER_EPOCH} for leader epoch {current_leader_epoch}, as the broker held {held_max}"

    def applies(self) -> Column:
        return (col("event_type") == self.api) & may_be_newer()

    def verdict(self) -> tuple[Branch, ...]:
        *branches, last = newer_than_held(self.lines, may_refuse=F.lit(False))
        return first_of(*branches, otherwise=last)
