"""GE-05."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.views import holds
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.releases import release
from epochaudit.rules.reasons import NEWER_JUST_BEFORE
from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

FENCING: Final = (Errors.STALE_MEMBER_EPOCH, Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION)
FIRST_WITH_ASSIGNMENT_EPOCHS: Final = release("4.3")  # KIP-1251

_ASKED = "{event_type} {correlation_id} of {client_id} commits for member {member_id} of group {group_id} in member epoch {generation_id}"
_NEWER = "coordinator {node} had answered member epoch {newer_epoch} to the member before the commit arrived"
_STATED = "the member went on in epoch {newer_epoch} or a higher one: it had not joined anew before the commit"
_CURRENT = "a member epoch that the coordinator has not replaced"


@rule("GE-05", frame="member_commits", kip="KIP-848", severity=HIGH, since="3.7")
class StaleMemberEpochCommitAccepted(Rule):
    """A group's coordinator accepted a commit in a member epoch that it had replaced: partitions may be another member's.

    ## What it checks
    In groups with the protocol of KIP-848 each member has an epoch of its own, which rises with its assignment. The coordinator answers it
    to ConsumerGroupHeartbeat, and from then on must refuse the member's commits in a lower one: OffsetCommit with 113 (STALE_MEMBER_EPOCH),
    TxnOffsetCommit with 22 (ILLEGAL_GENERATION), and either with 25 (UNKNOWN_MEMBER_ID) if the member is no longer in the group. Judged are
    OffsetCommit from version 9 on, and TxnOffsetCommit.

    ## Why it matters
    A new epoch may take partitions from the member. A commit from before puts the group's offsets back for the partition's next owner, and
    records are processed twice; or it puts them ahead, and records are skipped.

    ## Evidence needed
    The coordinators' request logs as JSON with ConsumerGroupHeartbeat: the light settings leave it out. The answer with the newer epoch
    must have been logged a second before the commit arrived. If it was logged within that second, an accepted commit is unverifiable, as
    lines may be written late. For a violation, a later heartbeat of the member, and the broker's release (`Kafka version:` in server.log).

    ## What is allowed
    From 4.3 on, a commit in an older epoch of the member, if it has had the partition since then (KIP-1251): assignments are not in
    these logs, so only refusals of these releases are judged. A lower epoch after the member has joined anew, if the group was
    deleted in between. Members that joined with JoinGroup (classic protocol) have no heartbeats with epochs; if the answer has the group's
    leader, the group is a classic one, and GE-01 judges the commit, whatever the member's id. Members of Streams groups (KIP-1071) send
    StreamsGroupHeartbeat, which is not read; 4.2 accepts their older epochs, too, for tasks that they have had since then. Other error
    codes are no verdict: 69 (GROUP_ID_NOT_FOUND), and 14 to 16 of a coordinator that moves.

    ## What to do
    Compare the group's offsets with what its members had processed, and reset them with kafka-consumer-groups.sh --reset-offsets while the
    group is stopped. No release before 4.3 accepts such a commit of a consumer group's member on purpose: report the coordinator's
    defect, with the lines.

    Refusals are harmless. Now and then a heartbeat overtakes a commit: 113. A member that was refused with 25 was frozen, or away for
    longer than `group.consumer.session.timeout.ms` or its `max.poll.interval.ms`.

    ## Example
    A coordinator answers member epoch 8 to a heartbeat of a member of group billing, because a partition goes to another one. Three seconds
    later the member commits in epoch 7, and is answered 0. Its next heartbeat states epoch 8.

    ## References
    ConsumerGroup.validateOffsetCommit and validateMemberEpoch; OffsetMetadataManager.validateTransactionalOffsetCommit; KIP-848; KIP-1251.
    """

    evidence = {
        "the commit and its answer": "commit_ref",
        "the first answer with the newer epoch": "newer_ref",
        "the member's last heartbeat that went on from it": "certain_ref",
        "the first answer that gave the member its epoch": "given_ref",
    }
    caused_by = ("TR-06", "AW-01")
    expected = "error {STALE_MEMBER_EPOCH}, {UNKNOWN_MEMBER_ID} or, of a TxnOffsetCommit, {ILLEGAL_GENERATION}"
    observed = "the commit in member epoch {generation_id} was answered {error_code}"
    because = (_ASKED,)

    def applies(self) -> Column:
        refused, accepted = col("error_code").isin(*FENCING), col("error_code") == Errors.NONE
        return refused | (accepted & ~holds(col("kafka_version") >= FIRST_WITH_ASSIGNMENT_EPOCHS))

    def verdict(self) -> tuple[Branch, ...]:
        refused, stale = col("error_code").isin(*FENCING), col("is_stale")
        return first_of(
            fenced(refused & stale, because=(_ASKED, _NEWER)),
            fenced(refused, expected=f"{_CURRENT}, or one of these errors"),
            unverifiable(
                stale & col("kafka_version").isNull(),
                "the release of the coordinator is not in the evidence: from 4.3 on some older member epochs are allowed",
                expected=_CURRENT,
                because=(_ASKED, _NEWER),
            ),
            violation(col("certain"), because=(_ASKED, _NEWER, _STATED)),
            unverifiable(
                stale,
                "no heartbeat after the commit shows that the member had not joined anew before",
                expected=_CURRENT,
                because=(_ASKED, _NEWER),
            ),
            unverifiable(col("just_after_newer"), NEWER_JUST_BEFORE, expected=_CURRENT, because=(_ASKED, _NEWER)),
            unverifiable(
                col("given_ref").isNull(),
                "no heartbeat in which this coordinator gave the member its epoch is in the evidence",
                expected=_CURRENT,
            ),
            otherwise=passed(
                expected=_CURRENT,
                because=(
                    _ASKED,
                    "no newer epoch that coordinator {node} had answered to the member was in force when the commit arrived",
                ),
            ),
        )
