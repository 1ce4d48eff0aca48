"""GE-04."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.kafka.errors import Errors
from epochaudit.replay.data_plane.coordinator_logs import CONSUMER_OFFSETS
from epochaudit.replay.data_plane.group_heartbeats import OLDER, PERHAPS_OLDER, PREVIOUS, RESTARTED, UNKNOWN
from epochaudit.rules.coordinator_log import LOSS, breaches
from epochaudit.rules.reasons import NEWER_JUST_BEFORE
from epochaudit.rules.rule import MEDIUM, Branch, Rule, fenced, first_of, passed, rule, unverifiable

FENCING: Final = (Errors.FENCED_MEMBER_EPOCH, Errors.UNKNOWN_MEMBER_ID, Errors.FENCED_INSTANCE_ID)

_ASKED = "ConsumerGroupHeartbeat {correlation_id} of {client_id} states epoch {member_epoch} of member {member_id} of group {group_id}"
_NEWER = "coordinator {node} had answered epoch {former_epoch} to the member before, and then epoch {newer_epoch}"
_LAST = "the answer to the member before has epoch {answered_before}"
_ACCEPTED = "the heartbeat in epoch {member_epoch} was answered {error_code} with epoch {response_member_epoch}"
_CURRENT = "the member's epoch, or the one before it"


@rule("GE-04", frame="group_heartbeats", kip="KIP-848", severity=MEDIUM, since="3.7")
class StaleMemberEpochHeartbeatAccepted(Rule):
    """A group's coordinator accepted a heartbeat in a member epoch older than the previous one: a member that missed an assignment.

    ## What it checks
    In groups with the protocol of KIP-848 a member states its epoch in ConsumerGroupHeartbeat, and gets its new one in the answer. A
    coordinator that has answered two higher epochs since must refuse the heartbeat with 110 (FENCED_MEMBER_EPOCH), with 25
    (UNKNOWN_MEMBER_ID) if the member is no longer in the group, or with 82 (FENCED_INSTANCE_ID) if another took its group.instance.id.

    ## Why it matters
    The member has not seen the assignments in between, and goes on with partitions that are no longer its own: they have two
    consumers, and records are processed twice.

    ## Evidence needed
    The coordinators' request logs as JSON with ConsumerGroupHeartbeat: the light settings leave it out. Both newer epochs must have been
    answered by the same coordinator, and logged a second before the heartbeat arrived. If the second one was logged within that second,
    the heartbeat is unverifiable, as lines may be written late. For a violation, the elections of __consumer_offsets: state-change.log or
    the metadata log.

    ## What is allowed
    The epoch before the current one, if the answer with the current one was lost: whether the member then has only partitions of
    its own is not judged. Any epoch after the member joined anew (epoch 0), left, or was refused. An answer that is lower than the one
    before: the group was created anew in between, at another coordinator. For the same reason an older epoch is unverifiable, if another
    broker led a partition of __consumer_offsets since the newer epochs were answered, or may have: the elections and the coordinator's
    own "starts at leader epoch" lines show that.

    ## What to do
    Look at the client named by its client id and `connection`: two processes with one member id, or a client that does not follow the
    answers. Its partitions may have been processed twice. A real Kafka client with this finding shows a defect of the coordinator: report
    it, with the lines. Exposed points to __consumer_offsets: set `offsets.topic.replication.factor=3`, `min.insync.replicas=2` for it, and
    `unclean.leader.election.enable=false`.

    ## Example
    A coordinator answers epochs 8 and 9 to a member of group billing. A second process with the same member id states epoch 7, and is
    answered 0 with epoch 9.

    ## References
    GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid (throwIfMemberEpochIsInvalid in 3.7); KIP-848.
    """

    evidence = {
        "the heartbeat and its answer": "request_ref",
        "the first answer with the last newer epoch": "newer_ref",
        "the first answer with the newer epoch before it": "former_ref",
        **LOSS,
    }
    caused_by = ("TR-06", "AW-01")
    expected = "error {FENCED_MEMBER_EPOCH}, {UNKNOWN_MEMBER_ID} or {FENCED_INSTANCE_ID}"
    observed = _ACCEPTED
    because = (_ASKED,)

    def applies(self) -> Column:
        return col("standing").isNotNull() | col("error_code").isin(*FENCING)

    def verdict(self) -> tuple[Branch, ...]:
        standing = col("standing")
        return first_of(
            fenced(
                standing.isNull(),
                expected=f"{_CURRENT}; else {self.expected}",
                observed="the heartbeat in epoch {member_epoch} was answered {error_code}",
                because=(_ASKED, _LAST),
            ),
            unverifiable(
                (standing == OLDER) & col("came_back"),
                "another broker led a partition of __consumer_offsets in between, or may have: the group may have been "
                "deleted and created anew there",
                expected=_CURRENT,
                because=(_ASKED, _NEWER),
            ),
            *breaches(standing == OLDER, CONSUMER_OFFSETS, _ACCEPTED, _ASKED, _NEWER),
            unverifiable(standing == PERHAPS_OLDER, NEWER_JUST_BEFORE, expected=_CURRENT, because=(_ASKED, _NEWER)),
            unverifiable(
                standing == UNKNOWN,
                "no answer with an epoch to the member's heartbeat before is in the evidence",
                expected=_CURRENT,
            ),
            unverifiable(
                standing == RESTARTED,
                "the answer has a lower epoch than the one before: whether the group was created anew in between is not in the evidence",
                expected=_CURRENT,
                because=(_ASKED, _LAST),
            ),
            passed(
                standing == PREVIOUS,
                expected=_CURRENT,
                because=(
                    _ASKED,
                    _LAST,
                    "no two newer epochs that coordinator {node} answered before the heartbeat arrived are recorded",
                ),
            ),
            otherwise=passed(expected=_CURRENT, because=(_ASKED, _LAST)),
        )
