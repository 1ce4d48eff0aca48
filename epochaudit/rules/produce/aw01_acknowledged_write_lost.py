"""AW-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.epoch_start import ASKED, ELECTION, LOG_OF_LEADER, MAYBE_ALONE, STARTED, from_isr, without_start
from epochaudit.rules.reasons import ELECTION_UNKNOWN
from epochaudit.rules.rule import CRITICAL, Branch, Rule, exposed, first_of, passed, rule, unverifiable, violation

_ACKNOWLEDGED = (
    "broker {acknowledged_by}, leader in epoch {acknowledged_in}, acknowledged offset {acknowledged_offset} with acks=all",
    "broker {acknowledged_by}, leader in epoch {acknowledged_from} or a later one before this, acknowledged offset {acknowledged_offset}"
    " with acks=all",
)
_UNPLACED = "in which leader epoch the writes were acknowledged is not in the evidence"
_NOTHING_LOST = "no acknowledged write of {topic}-{partition} is missing as leader epoch {leader_epoch} starts"
_NOT_KNOWN = "leader epoch {leader_epoch} of {topic}-{partition} starts above all that was acknowledged with acks=all"


@rule("AW-01", frame="lineage", kip="KIP-320", severity=CRITICAL, since="1.0")
class AcknowledgedWriteLost(Rule):
    """A leader epoch starts below an offset that a leader had acknowledged to a producer with acks=all.

    ## What it checks
    A leader answers Produce with acks=all once all members of the ISR have the records. The next leader is one of them, so that its
    log, which ends where its epoch starts, has each acknowledged base offset.

    ## Why it matters
    The producer has the answer that its records are safe, and does not send them again. They are lost.

    ## Evidence needed
    The request log of the brokers that led: Produce answers with code 0 and their base offsets. The leaders'
    "starts at leader epoch" lines, before the answers and for the later epoch. For the kind of election: as TR-06.

    ## What is allowed
    An answer proves its base offset only: the log does not print how many records a batch has. Answers with an error code promise
    nothing, even with a base offset. A write with acks=1 may be lost with any change of the leader: the report lists such writes apart,
    and they are no finding. Nor are records that retention or DeleteRecords had deleted before, or those of another topic id. A write
    counts for the first epoch that began without it.

    An unclean election loses data by definition and is exposed, like an election whose ISR is not in the evidence, and a leader that was
    alone in the ISR, stopped uncleanly, and had not written all to its disk. A leader that had led the epoch just before was in
    the ISR, whatever else was. If an epoch in between has no recorded start, it may be the one that lost the write. So may a leader that
    went on in its epoch with a shorter log. Both are exposed, too.

    Where the leader's log begins after its epoch, Fetches that it served state the epoch. Writes whose leader epoch is not known are
    unverifiable. A leader may have given its last answers in a later epoch of which it has no line: they count for epochs after that
    one, and those in between are unverifiable. So is an epoch if the request log of the leader before does not cover the time from
    its last acknowledgement, or from the start of its epoch, to the end, unless a broker proves that nothing above the start was
    committed (TR-06).

    Where the answer did not reach the producer, it may have sent the records again: then they are in the log at another offset. Records
    of a transaction count whether or not it was committed.

    ## What to do
    The report lists the producers, and the offsets that had been acknowledged to each. Before you start or clean a broker that has
    this partition and is down, copy its log directory: it may hold the only copy. If there is none, have these producers send the
    records again from their source. After an unclean election set `unclean.leader.election.enable=false` and
    `min.insync.replicas` 2. After a clean one IS-15, IS-09, BE-06 or HW-05 name how the leader came into the ISR.

    ## Example
    Broker 1, leader in epoch 6, answers a Produce with acks=all: base offset 119. Broker 3, a member of the ISR, becomes leader in epoch 7
    at offset 90.

    ## References
    Partition.checkEnoughReplicasReachOffset, DelayedProduce.tryComplete, Partition.makeLeader; KIP-101; KIP-320; KIP-966.
    """

    evidence = {
        "the leader's line that starts the epoch": "start_ref",
        "the answer that acknowledged the write": "acknowledged_ref",
        "the line of the leader that went on with a shorter log": "shortened_ref",
        "the recovery of the leader's log": "recovered_ref",
        "the creation of the leader's log": "created_ref",
        "the election": "election_ref",
        "the last recorded ISR before the election": "isr_before_ref",
        "the administrator's request, or the controller's line about it": "asked_ref",
    }
    caused_by = ("TR-06",)
    expected = "leader epoch {leader_epoch} of {topic}-{partition} starts above offset {acknowledged_offset}"
    observed = "the leader epoch starts at {start_offset}"
    because = (
        *_ACKNOWLEDGED,
        "the leader of epoch {shortened_in} went on with a log that ended at offset {shortened_to}",
        *LOG_OF_LEADER,
        STARTED,
        *ELECTION,
        *ASKED,
    )

    def lost(self) -> tuple[Column, Column]:
        return col("start_offset"), col("acknowledged_offset")

    def applies(self) -> Column:
        answered = col("answered_before") | col("unplaced_answer").isNotNull()
        return (col("leader") >= 0) & col("previous_leader_epoch").isNotNull() & answered

    def verdict(self) -> tuple[Branch, ...]:
        lost = col("start_offset") <= col("acknowledged_offset")
        return first_of(
            *without_start(_NOT_KNOWN, _NOTHING_LOST, because=_ACKNOWLEDGED),
            exposed(
                lost & col("start_unknown_between"),
                "an epoch in between, whose start is not in the evidence, may have lost the write",
            ),
            exposed(
                lost & col("shortened_in").isNotNull(),
                "a leader that went on with a shorter log in its epoch may have lost the write",
            ),
            exposed(
                lost & col("alone_before") & col("recovered_by").isNotNull(),
                "the leader was the whole ISR, and stopped before its records were on its disk",
            ),
            violation(lost & from_isr()),
            exposed(
                lost & (col("election") == "unclean"),
                "an unclean election may begin without what had been acknowledged",
            ),
            exposed(lost & col("led_just_before").isNotNull(), MAYBE_ALONE),
            exposed(lost, ELECTION_UNKNOWN),
            unverifiable(
                col("writes_missing") & col("proved_by").isNull(),
                "what the leader before acknowledged last is not in the evidence: files of its request log are missing",
                expected=_NOT_KNOWN,
                because=(STARTED, *ELECTION),
            ),
            unverifiable(
                col("doubtful_answer") >= col("start_offset"),
                _UNPLACED,
                expected=_NOT_KNOWN,
                because=(STARTED, *ELECTION),
            ),
            unverifiable(
                ~col("answered_before") & (col("unplaced_answer") >= col("start_offset")),
                _UNPLACED,
                expected=_NOT_KNOWN,
                because=(STARTED, *ELECTION),
            ),
            unverifiable(
                ~col("writes_recorded") & col("proved_by").isNull(),
                "what the leader before acknowledged last is not in the evidence: its request log does not cover the leader epoch",
                expected=_NOT_KNOWN,
                because=(STARTED, *ELECTION),
            ),
            passed(col("acknowledged_offset").isNotNull()),
            otherwise=passed(
                expected=_NOTHING_LOST,
                observed="the leader epoch starts at {start_offset}; no write at or above that offset is known to have"
                " been acknowledged with acks=all before",
                because=(STARTED,),
            ),
        )
