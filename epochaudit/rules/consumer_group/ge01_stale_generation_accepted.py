"""GE-01."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.kafka.errors import Errors
from epochaudit.kafka.releases import release
from epochaudit.replay.data_plane.coordinator_logs import CONSUMER_OFFSETS
from epochaudit.rules.coordinator_log import LOSS, breaches
from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable

# KIP-848: a classic group may go on as one whose members have epochs of their own
FIRST_WITH_CONVERSION: Final = release("3.8")
FENCING: Final = (Errors.ILLEGAL_GENERATION, Errors.UNKNOWN_MEMBER_ID, Errors.FENCED_INSTANCE_ID)

_ASKED = "{event_type} {correlation_id} of {client_id} commits for member {member_id} of group {group_id} in generation {generation_id}"
_NEWER = "coordinator {node} had answered generation {newer_generation} of the group before the commit arrived"
_USED = (
    "coordinator {node} had accepted a commit in generation {used_generation} of the group before the commit arrived"
)
_ACCEPTED = "the commit in generation {generation_id} was answered {error_code}"
_ANY_NEWER = "a generation that the coordinator has not replaced"


@rule("GE-01", frame="group_generations", kip="KIP-447", severity=HIGH, since="1.0")
class StaleGenerationAccepted(Rule):
    """A group's coordinator accepted a commit of a generation that it had replaced: a zombie consumer.

    ## What it checks
    Each rebalance gives a classic consumer group a new generation. Once a coordinator has answered SyncGroup in it, or accepted an
    OffsetCommit, commits of lower generations must be refused: with 22 (ILLEGAL_GENERATION), with 25 (UNKNOWN_MEMBER_ID) if the member
    is no longer in the group, or with 82 (FENCED_INSTANCE_ID) if another took its group.instance.id. Judged are OffsetCommit, and
    TxnOffsetCommit from version 3 on.

    ## Why it matters
    The partitions of a former generation belong to other members. A commit of a zombie puts the group back to where the zombie was, and
    records are processed twice; or it puts the group ahead, and records are skipped.

    ## Evidence needed
    The coordinators' request logs, with JoinGroup and SyncGroup: the light settings leave most of these out. All
    answers must be of one node, and that of the newer generation must have been logged a second before the commit arrived. If it was
    logged within that second, an accepted commit is unverifiable, as lines may be written late. For a
    violation, the elections of __consumer_offsets: state-change.log or the metadata log; and if the newer generation is known only by
    commits of members whose JoinGroup in it is not recorded, the broker's release, before 3.8. Without a newer generation, a log that is
    filtered, or lacks files in between, is no proof.

    ## What is allowed
    A commit in the group's generation while the next rebalance is still gathering members. Commits of consumers that are in no group
    (generation -1). A lower generation, if the group was deleted and created again: the member must have joined the generation before
    the newer one was answered, as nobody but a member can commit, and a new group has no member of the old one. A newer generation that was
    answered to JoinGroup only: it is not written yet, and a new election for __consumer_offsets may undo it. Other error codes are no
    verdict: 27 (REBALANCE_IN_PROGRESS), and 14 to 16 of a coordinator that moves.

    Groups of KIP-848 are not judged: their members have epochs of their own (GE-04, GE-05). A classic group that was one of KIP-848 may
    have members with ids as in those groups. Their commits are judged if the coordinator's answer to JoinGroup, with the group's leader,
    gave them the generation.

    ## What to do
    Look at the consumer named by its client id and `connection`: it was frozen, or away for longer than `session.timeout.ms` or
    `max.poll.interval.ms`. Compare the group's offsets with what the members of the newer generation had processed, and reset them with
    kafka-consumer-groups.sh --reset-offsets while the group is stopped. Exposed points to __consumer_offsets: set
    `offsets.topic.replication.factor=3`, `min.insync.replicas=2` for it, and `unclean.leader.election.enable=false`.

    ## Example
    A consumer of group billing in generation 4 is frozen past its session. The others rebalance to generation 5, and go on. The first
    wakes up and commits the offset where it stopped, in generation 4: it is answered 0.

    ## References
    ClassicGroup.validateOffsetCommit; GroupCoordinator.validateOffsetCommit and doSyncGroup up to 3.9; KIP-345; KIP-447.
    """

    evidence = {
        "the commit and its answer": "commit_ref",
        "the JoinGroup, SyncGroup or commit of the newer generation, and its answer": "newer_ref",
        "the last answer that gave the member its generation": "joined_ref",
        **LOSS,
    }
    caused_by = ("TR-06", "AW-01")
    expected = "error {ILLEGAL_GENERATION}, {UNKNOWN_MEMBER_ID} or {FENCED_INSTANCE_ID}"
    observed = _ACCEPTED
    because = (_ASKED,)

    def applies(self) -> Column:
        return col("is_classic") & col("error_code").isin(Errors.NONE, *FENCING)

    def verdict(self) -> tuple[Branch, ...]:
        refused = col("error_code").isin(*FENCING)
        answered, used = col("newer_generation").isNotNull(), col("used_generation").isNotNull()
        replaced = answered | used
        return first_of(
            fenced(refused & replaced, because=(_ASKED, _NEWER, _USED)),
            fenced(refused, expected=f"{_ANY_NEWER}, or one of these errors"),
            unverifiable(
                col("given_ref").isNull(),
                "no answer to JoinGroup in which this coordinator gave the generation is in the evidence",
                expected=_ANY_NEWER,
            ),
            unverifiable(
                col("just_after_newer"),
                "the newer generation was answered just before, and request lines may be written late",
                expected=_ANY_NEWER,
                because=(_ASKED, _NEWER, _USED),
            ),
            unverifiable(
                replaced & col("joined_ref").isNull(),
                "that the member joined the generation before the newer one was answered is not in the evidence",
                expected=_ANY_NEWER,
                because=(_ASKED, _NEWER, _USED),
            ),
            unverifiable(
                answered & ~col("written"),
                "no answer to SyncGroup or to a commit of the newer generation is in the evidence: it may not have been written",
                expected=_ANY_NEWER,
                because=(_ASKED, _NEWER),
            ),
            unverifiable(
                used & (col("kafka_version").isNull() | (col("kafka_version") >= FIRST_WITH_CONVERSION)),
                "that the member with the commit in the newer generation had joined it in a classic group is not in the evidence: "
                "from 3.8 on it may be a member epoch of KIP-848",
                expected=_ANY_NEWER,
                because=(_ASKED, _USED),
            ),
            *breaches(replaced, CONSUMER_OFFSETS, _ACCEPTED, _ASKED, _NEWER, _USED),
            unverifiable(
                col("filtered"),
                "requests are left out of the coordinator's log on purpose, perhaps those of a newer generation",
                expected=_ANY_NEWER,
            ),
            unverifiable(
                col("requests_missing"),
                "files of the coordinator's request log are missing in between, perhaps with requests of a newer generation",
                expected=_ANY_NEWER,
            ),
            otherwise=passed(
                expected=_ANY_NEWER,
                because=(
                    _ASKED,
                    "no SyncGroup or OffsetCommit of a newer generation is recorded at coordinator {node} before the commit arrived, and "
                    "no JoinGroup of one a second before",
                ),
            ),
        )
