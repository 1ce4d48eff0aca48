"""GE-03."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.kafka.errors import Errors
from epochaudit.replay.data_plane.coordinator_logs import CONSUMER_OFFSETS
from epochaudit.rules.coordinator_log import LOSS, breaches
from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable

FENCING: Final = (Errors.FENCED_INSTANCE_ID, Errors.UNKNOWN_MEMBER_ID)

_ASKED = "{event_type} {correlation_id} of {client_id} commits for member {member_id} of group {group_id}"
_NAMED = "the member had group.instance.id {group_instance_id}"
_REPLACED = (
    "coordinator {node} had accepted {replaced_in} of member {replaced_by} with that id before the commit arrived"
)
_ACCEPTED = "the commit was answered {error_code}"
_NO_OTHER = "no other member has taken its group.instance.id {group_instance_id}"


@rule("GE-03", frame="group_generations", kip="KIP-345", severity=HIGH, since="2.3")
class FencedStaticMemberAccepted(Rule):
    """A group's coordinator accepted a commit of a static member whose group.instance.id another member had taken.

    ## What it checks
    A static member names itself by `group.instance.id`. If a second process joins with the same name, the coordinator gives it a new
    member id, and the name's partitions: the group's generation may remain. Once the coordinator has answered SyncGroup to the new
    member, or accepted its OffsetCommit, it must refuse commits of the former one: with 82 (FENCED_INSTANCE_ID), or with 25
    (UNKNOWN_MEMBER_ID) if the request does not state the name. Judged are OffsetCommit and TxnOffsetCommit.

    ## Why it matters
    Two processes consume the same partitions. A commit of the former one puts the group's offsets back, and records are processed twice;
    or it puts them ahead, and records are skipped. As the generation may be the same, only the member id differs.

    ## Evidence needed
    The coordinators' request logs, with JoinGroup and SyncGroup: the light settings leave most of these out.
    All answers must be of one node; the new member's SyncGroup or OffsetCommit must have arrived a second after the last JoinGroup of
    the former one was answered, and have been logged a second before the commit arrived. If it was logged within that second, an accepted
    commit is unverifiable, as lines may be written late. For a violation, the elections of __consumer_offsets: state-change.log or the
    metadata log.

    ## What is allowed
    A commit that arrives before the new member's SyncGroup or commit is answered: who has the name need not be written yet. A member
    that joins again with its own id. Static members of KIP-848 groups are not judged. A member that has an id as in those groups counts
    as one of a classic group if an answer to JoinGroup with the group's leader gave it the generation.

    ## What to do
    Two processes run with one `group.instance.id`: find both by `connection` in the lines, and stop one. Give each process its own name,
    for instance the pod's ordinal. Compare the group's offsets with what was processed, and reset them with kafka-consumer-groups.sh
    --reset-offsets while the group is stopped. A commit that was accepted in spite of this shows a defect of the coordinator: report it,
    with the lines. Exposed points to __consumer_offsets: set `offsets.topic.replication.factor=3`, `min.insync.replicas=2` for it, and
    `unclean.leader.election.enable=false`.

    ## Example
    A consumer of group billing with group.instance.id till-1 is frozen. A second process joins as till-1 and gets its partitions in the
    same generation. The first wakes up and commits: it is answered 0.

    ## References
    ClassicGroup.validateMember and replaceStaticMember; GroupCoordinator.validateCurrentMember up to 3.9; KIP-345; KAFKA-10284.
    """

    evidence = {
        "the commit and its answer": "commit_ref",
        "the answer to SyncGroup or to a commit of the member that took the name": "replaced_ref",
        "the last answer that gave the name to the former member": "static_ref",
        **LOSS,
    }
    caused_by = ("TR-06", "AW-01")
    expected = "error {FENCED_INSTANCE_ID} or {UNKNOWN_MEMBER_ID}"
    observed = _ACCEPTED
    because = (_ASKED, _NAMED)

    def applies(self) -> Column:
        refused = col("error_code").isin(*FENCING)
        known = refused & (col("after_replacement") | (col("error_code") == Errors.FENCED_INSTANCE_ID))
        return col("group_instance_id").isNotNull() & col("is_classic") & ((col("error_code") == Errors.NONE) | known)

    def verdict(self) -> tuple[Branch, ...]:
        refused, replaced = col("error_code").isin(*FENCING), col("after_replacement")
        return first_of(
            fenced(refused & replaced, because=(_ASKED, _NAMED, _REPLACED)),
            fenced(refused, expected=f"error {{FENCED_INSTANCE_ID}}, unless {_NO_OTHER}"),
            *breaches(replaced, CONSUMER_OFFSETS, _ACCEPTED, _ASKED, _NAMED, _REPLACED),
            unverifiable(
                col("just_after_replacement"),
                "the other member took the name just before, and request lines may be written late",
                expected=_NO_OTHER,
                because=(_ASKED, _NAMED, _REPLACED),
            ),
            unverifiable(
                col("static_ref").isNull(),
                "no answer to JoinGroup in which this coordinator gave the member its group.instance.id is in the evidence",
                expected=_NO_OTHER,
            ),
            otherwise=passed(
                expected=_NO_OTHER,
                because=(
                    _ASKED,
                    _NAMED,
                    "coordinator {node} had accepted no SyncGroup or commit of a later member with that id before the commit arrived",
                ),
            ),
        )
