"""AW-02."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.reasons import LEADING_UNKNOWN
from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation

_ACKNOWLEDGED: Final = "broker {node} acknowledged offset {base_offset} of {topic}-{partition} with acks={acks}"
_IF_FOLLOWER: Final = "error {NOT_LEADER_OR_FOLLOWER}, if the broker does not lead"


@rule("AW-02", frame="acknowledgements", kip="KIP-320", severity=CRITICAL, since="2.6")
class WriteAcknowledgedByFollower(Rule):
    """A broker acknowledged a write of a partition that it followed: no other replica copies it.

    ## What it checks
    Only the leader takes records from producers. A follower must answer Produce with 6 (NOT_LEADER_OR_FOLLOWER). The subject are the writes
    that a broker acknowledged to producers in one leader epoch, with any acks.

    ## Why it matters
    The record is in the log of one replica, in place of the leader's record at that offset. It is lost when that replica truncates, or both
    logs stay different for ever, and consumers read the one or the other.

    ## Evidence needed
    The broker's request log with Produce, and its "starts at leader epoch" lines, which followers write since 2.6.

    ## What is allowed
    A leader that was replaced and has not heard of it yet: it still leads by its own lines (LD-05). With acks=1 it acknowledges writes that
    are lost then. An answer while the leadership changed, or half a second after. Refusals are not subjects: the report counts their codes.

    ## What to do
    Read the record from the log of this broker (kafka-dump-log.sh) before it truncates, and compare it with the leader's. Stop the broker,
    delete its replica, and let it copy the leader's log. Report the broker's version with both lines: no release does this on purpose.

    ## Example
    Broker 3 follows broker 1 for orders-0 in leader epoch 6. A producer sends a record to broker 3, and is answered 0 with offset 119.

    ## References
    Partition.appendRecordsToLeader; ReplicaManager.appendToLocalLog.
    """

    evidence = {
        "the answer that acknowledged the write": "answer_ref",
        "the line with which the broker began to follow": "followed_ref",
    }
    caused_by = ("LI-05", "SR-01")
    expected = "error {NOT_LEADER_OR_FOLLOWER}, as the broker followed"
    observed = "{NONE}, offset {base_offset}"
    because = (
        "broker {node} had begun leader epoch {followed_epoch} of {topic}-{partition} as a follower",
        _ACKNOWLEDGED,
    )

    def applies(self) -> Column:
        return F.lit(True)

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(
                col("leader_epoch").isNotNull(),
                expected="an answer, as the broker led",
                because=("broker {node} led {topic}-{partition} in leader epoch {leader_epoch}", _ACKNOWLEDGED),
            ),
            passed(
                col("led"),
                expected="an answer, as the broker led",
                because=("broker {node} led {topic}-{partition} about then", _ACKNOWLEDGED),
            ),
            violation(col("followed_epoch").isNotNull()),
            otherwise=unverifiable(None, LEADING_UNKNOWN, expected=_IF_FOLLOWER, because=(_ACKNOWLEDGED,)),
        )
