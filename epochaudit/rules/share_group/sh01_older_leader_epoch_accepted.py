"""SH-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import READ_SHARE_GROUP_STATE, WRITE_SHARE_GROUP_STATE
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import NO_EPOCH
from epochaudit.replay.data_plane.coordinator_logs import SHARE_GROUP_STATE
from epochaudit.rules.coordinator_log import LOSS, breaches
from epochaudit.rules.reasons import NEWER_JUST_BEFORE, SHARE_STATE_REQUESTS_MISSING
from epochaudit.rules.rule import CRITICAL, Branch, OwnSentences, Rule, fenced, first_of, passed, rule, unverifiable

_ASKED = "{event_type} {correlation_id} of {client_id} for group {group_id} and {topic}-{partition} in leader epoch {leader_epoch}"
_NEWER = "coordinator {node} had answered a read of the state in leader epoch {newer_leader_epoch} before the request arrived"
_ACCEPTED = "the request in leader epoch {leader_epoch} was answered {error_code}"
_NOT_REPLACED = "a leader epoch not below those in which the coordinator has answered reads"


@rule("SH-01", frame="share_states", kip="KIP-932", severity=CRITICAL, since="4.1")
class OlderLeaderEpochAccepted(Rule):
    """A share coordinator accepted a request of an older leader of the partition than the one that had read the group's state.

    ## What it checks
    A leader that begins to deliver a partition's records to a share group reads the group's state of the partition from its share
    coordinator, in its leader epoch (ReadShareGroupState). From then on the coordinator must refuse reads and writes in lower leader
    epochs with 74 (FENCED_LEADER_EPOCH). Judged are ReadShareGroupState and WriteShareGroupState.

    ## Why it matters
    The state says which records of the partition are delivered and acknowledged. What a former leader writes there is about
    deliveries that the new leader does not know: records count as processed that nobody has processed, and are delivered no more, or
    records are delivered again.

    ## Evidence needed
    The request logs of the brokers that are share coordinators, as JSON; the light settings keep these requests. The answer to the read
    in the higher epoch must have been logged at the same coordinator a second before the request arrived. If it was logged within that
    second, an accepted request is unverifiable, as lines may be written late. For a violation, the elections of __share_group_state:
    state-change.log or the metadata log.

    ## What is allowed
    Writes of a former leader before the new one has read the state: by that read the coordinator learns of the new leader. Only reads
    raise the epoch here: up to 4.1 a write in a higher epoch did so, too, from 4.2 on it does not (KAFKA-19456). Leader epoch -1 of a
    request that states none. A lower epoch after the state was deleted or initialized: whoever deletes a group or resets its
    offsets begins the state anew. If another broker led a partition of __share_group_state in between, that
    may have happened there: it is unverifiable. Other error codes are no verdict, such as 16 of a coordinator that moves.

    ## What to do
    Find the former leader: the client id of its requests names the broker (`connection` has its address). Restart it if it still
    takes itself for the leader. Compare the group's start offset (kafka-share-groups.sh --describe --offsets) with what its members have
    processed, and reset it while the group is empty (--reset-offsets). Exposed points to __share_group_state: set
    `share.coordinator.state.topic.replication.factor=3` and `share.coordinator.state.topic.min.isr=2` before it is created, and
    `unclean.leader.election.enable=false` for it.

    ## Example
    Broker 1, the leader of orders-0 in epoch 4, is frozen. Broker 2 becomes the leader in epoch 5 and reads the state of group pickers.
    Broker 1 wakes up and writes in epoch 4 that offsets 10 to 19 are acknowledged: it is answered 0.

    ## References
    ShareCoordinatorShard.maybeGetWriteStateError, maybeGetReadStateError and readStateAndMaybeUpdateLeaderEpoch; KIP-932;
    KAFKA-17796; KAFKA-19456.
    """

    evidence = {
        "the request and its answer": "request_ref",
        "the answer to the read in the higher leader epoch": "newer_read_ref",
        **LOSS,
    }
    caused_by = ("TR-06", "AW-01")
    expected = "error {FENCED_LEADER_EPOCH}"
    observed = _ACCEPTED
    because = (_ASKED,)

    def applies(self) -> Column:
        stated = col("event_type").isin(READ_SHARE_GROUP_STATE, WRITE_SHARE_GROUP_STATE) & (
            col("leader_epoch") > NO_EPOCH
        )
        return stated & col("error_code").isin(Errors.NONE, Errors.FENCED_LEADER_EPOCH)

    def verdict(self) -> tuple[Branch, ...]:
        refused = col("error_code") == Errors.FENCED_LEADER_EPOCH
        replaced = col("newer_leader_epoch").isNotNull()
        unsettled = OwnSentences(expected=_NOT_REPLACED, because=(_ASKED, _NEWER))
        return first_of(
            fenced(refused & replaced, because=(_ASKED, _NEWER)),
            fenced(refused, expected=f"{_NOT_REPLACED}, or this error: {self.expected}"),
            unverifiable(col("just_after_read"), NEWER_JUST_BEFORE, **unsettled),
            unverifiable(
                replaced & col("changed_elsewhere"),
                "another coordinator was asked to delete or to initialize the state, perhaps in between",
                **unsettled,
            ),
            unverifiable(
                replaced & col("returned_since_read"),
                "another broker led a partition of __share_group_state in between, or may have: the state may have been "
                "deleted or initialized there",
                **unsettled,
            ),
            unverifiable(replaced & col("requests_missing_since_read"), SHARE_STATE_REQUESTS_MISSING, **unsettled),
            *breaches(replaced, SHARE_GROUP_STATE, _ACCEPTED, _ASKED, _NEWER),
            unverifiable(
                ~col("recorded"),
                "no earlier answer of this coordinator to a read or an initialization of the state is in the evidence",
                expected=_NOT_REPLACED,
            ),
            otherwise=passed(
                expected=_NOT_REPLACED,
                because=(
                    _ASKED,
                    "coordinator {node} had answered no read in a higher leader epoch before the request arrived, or had deleted or "
                    "initialized the state since",
                ),
            ),
        )
