"""GE-02."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.kafka.errors import Errors
from epochaudit.replay.data_plane.coordinator_logs import CONSUMER_OFFSETS
from epochaudit.rules.coordinator_log import LOSS, breaches
from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable

FENCING: Final = (Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION, Errors.FENCED_INSTANCE_ID)

_ASKED = "OffsetCommit {correlation_id} of {client_id} commits for group {group_id} without a generation"
_MEMBER = "coordinator {node} accepted commits of member {member_id} in generation {member_generation} before it, and after it"
_ACCEPTED = "the commit was answered {error_code}"
_NO_MEMBER = "a group without members"


@rule("GE-02", frame="simple_commits", kip="KIP-122", severity=HIGH, since="1.0")
class SimpleCommitToLiveGroup(Rule):
    """A group's coordinator accepted a commit without a generation, although the group had members.

    ## What it checks
    Consumers that assign partitions to themselves, and kafka-consumer-groups.sh --reset-offsets, commit without a generation. A coordinator
    accepts this only while the group has no member, and else refuses it: with 25 (UNKNOWN_MEMBER_ID), or if the request names a member,
    with 22 (ILLEGAL_GENERATION) or 82 (FENCED_INSTANCE_ID).

    ## Why it matters
    The members own the group's partitions. After the next rebalance they go on at the offsets that another client committed
    meanwhile: records are processed twice, or skipped.

    ## Evidence needed
    The coordinators' request logs with OffsetCommit. That the group had a member is known if the coordinator accepted commits of the
    member in one generation before and after, each a second apart: a coordinator gives a member's id once, so the member cannot have left
    in between. For a violation, the elections of __consumer_offsets: state-change.log or the metadata log.

    ## What is allowed
    A commit to a group of which this coordinator's log has no JoinGroup, SyncGroup, ConsumerGroupHeartbeat or commit of a member; other
    heartbeats are not read. If the log is filtered, as by the light settings, members may not be in it: unverifiable. So it is if the
    log has members, but none with commits around this one: they may all have left. Members of KIP-848 are counted among them, but prove
    nothing: their ids are the clients' own, and may come back. A member with such an id proves something if an answer to JoinGroup with
    the group's leader gave it the generation: the group had become a classic one. TxnOffsetCommit may name no generation. Other error
    codes are no verdict: 14 to 16 of a coordinator that moves.

    ## What to do
    Find the client by its id and `connection`: a consumer with `assign` and the `group.id` of another application, or a tool that resets
    offsets. Give it a group of its own, or stop the group's members before the reset. Compare the group's offsets with what its members had
    processed. A coordinator that accepts this is defective: report it, with the lines. Exposed points to __consumer_offsets: set
    `offsets.topic.replication.factor=3`, `min.insync.replicas=2` for it, and `unclean.leader.election.enable=false`.

    ## Example
    A member of group billing commits in generation 4. An administrator resets the group's offsets, and is answered 0. The member goes on to
    commit in generation 4.

    ## References
    ClassicGroup.validateOffsetCommit; ConsumerGroup.validateOffsetCommit; GroupCoordinator.validateOffsetCommit up to 3.9; KIP-122.
    """

    evidence = {
        "the commit and its answer": "commit_ref",
        "the member's first commit in the generation": "before_ref",
        "its last commit in the generation": "after_ref",
        **LOSS,
    }
    caused_by = ("TR-06", "AW-01")
    expected = "error {UNKNOWN_MEMBER_ID}, {ILLEGAL_GENERATION} or {FENCED_INSTANCE_ID}"
    observed = _ACCEPTED
    because = (_ASKED,)

    def applies(self) -> Column:
        return col("error_code").isin(Errors.NONE, *FENCING)

    def verdict(self) -> tuple[Branch, ...]:
        refused, enclosed = col("error_code").isin(*FENCING), col("enclosed")
        return first_of(
            fenced(refused & enclosed, because=(_ASKED, _MEMBER)),
            fenced(refused, expected=f"{_NO_MEMBER}, or one of these errors"),
            *breaches(enclosed, CONSUMER_OFFSETS, _ACCEPTED, _ASKED, _MEMBER),
            unverifiable(
                col("has_members"),
                "whether the group had members then is not in the evidence: none has commits in one generation before and after",
                expected=_NO_MEMBER,
            ),
            unverifiable(
                col("filtered"),
                "requests are left out of the coordinator's log on purpose, perhaps those of the group's members",
                expected=_NO_MEMBER,
            ),
            otherwise=passed(
                expected=_NO_MEMBER,
                because=(
                    _ASKED,
                    "no JoinGroup, SyncGroup, ConsumerGroupHeartbeat or commit of a member of the group is recorded at coordinator {node}",
                ),
            ),
        )
