"""TR-06."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.epoch_start import ASKED, ELECTION, LOG_OF_LEADER, MAYBE_ALONE, STARTED, from_isr, without_start
from epochaudit.rules.reasons import ELECTION_UNKNOWN
from epochaudit.rules.rule import CRITICAL, Branch, Rule, exposed, first_of, passed, rule, unverifiable, violation

_BOUND = (
    "high watermark {exposed_high_watermark} of {topic}-{partition} was given out in leader epoch {given_out_in}",
    "high watermark {exposed_high_watermark} of {topic}-{partition} was given out in leader epoch {given_out_from} or a later one before"
    " this",
    "broker {leader_knew} began to lead in epoch {exposed_leader_epoch} with high watermark {exposed_high_watermark}",
    "broker {replica_knew} had high watermark {exposed_high_watermark}, from epochs before",
    "broker {whole_isr} was the whole ISR: what it had, up to {exposed_high_watermark}, was committed",
    "min.insync.replicas of {topic} was {min_insync_replicas}: broker {whole_isr} printed it, and no setting in the metadata log"
    " overruled it",
    "broker {checkpointed_by} had checkpointed high watermark {exposed_high_watermark}, in leader epoch {exposed_leader_epoch} or before",
)
_AT_MOST = "broker {bounded_by} had been a member of the ISR, and its log ended at {bound}: no more had been committed"
_NOTHING_LOST = "no committed record of {topic}-{partition} is missing as leader epoch {leader_epoch} starts"
_NOT_KNOWN = (
    "leader epoch {leader_epoch} of {topic}-{partition} starts where all that was committed before ends, or above"
)

_IN_BETWEEN = "an epoch in between, whose start is not in the evidence, may have lost the records"
_WENT_ON = (
    "the leader epoch starts at {start_offset}; later in it, broker {node} went on with a log that ended at"
    " {restart_offset}"
)


@rule("TR-06", frame="lineage", kip="KIP-320", severity=CRITICAL, since="0.11")
class ExposedDataLostByElection(Rule):
    """A leader epoch starts below what had been committed before it.

    ## What it checks
    A new leader's log ends where its epoch starts. That offset must not be below any high watermark of earlier epochs,
    because all members of the ISR have all records below it, and a leader is elected from the ISR.

    ## Why it matters
    Acknowledged records that may have been consumed are missing from the new history, and followers truncate their copies.

    ## Evidence needed
    The leaders' "starts at leader epoch" lines. For the kind of election: the ISR just before it, from controller lines,
    LeaderAndIsr, AlterPartition responses or metadata records. For how far the partition was committed: Fetch responses, or
    these lower bounds from default logs. The leader's line before a response shows its leader epoch. Where the leader's log begins
    later, the request shows it: a broker serves a Fetch that states a leader epoch only if it has the same one (KIP-320).

    The high watermark with which a leader began an earlier epoch, with which a follower began to follow in this one (2.6+),
    or with which its log was loaded ("initial high watermark"). A follower's high watermark counts if its lines
    show that it learned it before, or truncated its log to the start of the epoch or below. The log end of a leader that had
    learned that it was the whole ISR. From 3.7 on, an ISR below min.insync.replicas commits nothing: there the leader's
    server.log must print 1 (KafkaConfig), and the metadata log, from its first record or from a snapshot before that ISR up
    to the election, must be whole and set no other number. A follower that is the last member of the ISR may have records
    that were not committed. replication-offset-checkpoint of a replica that did not come back, with leader-epoch-checkpoint
    of the same log directory. A checkpoint counts only if neither the leader epochs beside it nor the replica's own lines are
    of the epoch that starts below it, and if no other epoch since can have lost it.

    These are lower bounds: more may have been committed. The least log end of several ISR members is no lower bound,
    because a leader advances the high watermark only when their next fetches state what they have. The log end of an ISR
    member whose process survived is an upper bound. If it is above the start of the epoch, the finding states it as the
    most that can have been committed.

    ## What is allowed
    Epochs and offsets of a re-created topic start at 0 again: another topic id is another partition. If a name had several
    topics and no id distinguishes them, the rule claims nothing. An unclean election loses data by definition and is
    exposed, like an election whose ISR is not in the evidence, and like an epoch after one whose start is not in the evidence:
    that one may have lost the records. A leader that had led the epoch just before was in the ISR, whatever else was.
    In KRaft a leader from outside the ISR may be an eligible leader replica, or the one that a reassignment added last.
    Only the metadata log shows these: without it, whether such an election was clean is not known. An epoch passes if a
    broker proves that nothing above its start was committed: it was elected from the ISR or had been a member of it
    just before, its process has run since an earlier epoch, and its log ended there. An ISR that was recorded longer
    ago proves nothing: it may have shrunk since. Without such a broker the previous leader's request log is needed,
    from its last answer about the partition, or the beginning of its epoch, to the end of that epoch: the high
    watermark at an epoch's beginning proves nothing about its end.
    An epoch that its leader skipped, because the next one came first, has no start: it passes.

    ## What to do
    Before you start or clean a broker that has this partition and is down, copy its log directory: it may hold the only
    copy of the lost records. It truncates them when it follows the new leader; `kafka-dump-log.sh --print-data-log`
    reads them from the copy. Pause the consumers that had read them; TR-01 and CO-04 name those to reset. After an
    unclean election set `unclean.leader.election.enable=false`, three replicas, `min.insync.replicas` 2, and acks=all.
    After a clean one IS-15, IS-09, BE-06 or HW-05 name how the leader came into the ISR. If the leader had created an empty
    log, its disk was replaced or emptied: before a broker starts without its log, another replica must be in the ISR. With
    eligible leader replicas (KIP-966) the controller takes a broker that stopped uncleanly out of it.

    ## Example
    The high watermark of orders-0 was 120 in epoch 6. Broker 3, a member of the ISR, becomes leader in epoch 7 at offset 90.

    ## References
    Partition.makeLeader, makeFollower, maybeIncrementLeaderHW; LogManager.loadLogs; StrongIsr in Kafka's TLA+ model; KIP-320;
    KIP-966.
    """

    evidence = {
        "the leader's line that starts the epoch": "start_ref",
        "the answer or line that states how far it was committed": "exposed_ref",
        "the last leader epoch in which the broker of the checkpoint is known to have been": "checkpointed_epoch_ref",
        "the statement that one broker was the whole ISR": "whole_isr_ref",
        "the line by which a leader learned that it was the whole ISR": "alone_ref",
        "the broker's min.insync.replicas": "min_insync_replica_ref",
        "the line of the replica that truncated": "truncated_ref",
        "the recovery of the leader's log": "recovered_ref",
        "the creation of the leader's log": "created_ref",
        "the line of the leader's restart": "restart_ref",
        "the election": "election_ref",
        "the last recorded ISR before the election": "isr_before_ref",
        "the line of the ISR member whose log ended above the start": "bound_ref",
        "the administrator's request, or the controller's line about it": "asked_ref",
    }
    expected = "leader epoch {leader_epoch} of {topic}-{partition} starts at {exposed_high_watermark} or above"
    observed = "the leader epoch starts at {start_offset}"
    because = (
        *_BOUND,
        *LOG_OF_LEADER,
        STARTED,
        "broker {truncated_by} truncated its log to {truncated_to}",
        *ELECTION,
        _AT_MOST,
        *ASKED,
    )

    def lost(self) -> tuple[Column, Column]:
        return F.least("start_offset", "restart_offset"), col("exposed_high_watermark") - 1

    def applies(self) -> Column:
        return (col("leader") >= 0) & col("previous_leader_epoch").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        bound = col("exposed_high_watermark")
        lost = col("start_offset") < bound
        shorter = col("restart_offset") < bound
        unsure = col("begun_unknown_between")
        return first_of(
            *without_start(_NOT_KNOWN, _NOTHING_LOST, because=self.because),
            exposed(lost & unsure, _IN_BETWEEN),
            exposed(shorter & unsure, _IN_BETWEEN, observed=_WENT_ON, because=_BOUND),
            violation(lost & from_isr()),
            exposed(
                lost & (col("election") == "unclean"), "an unclean election may begin without what had been committed"
            ),
            exposed(lost & col("led_just_before").isNotNull(), MAYBE_ALONE),
            exposed(lost, ELECTION_UNKNOWN),
            violation(shorter, observed=_WENT_ON, because=_BOUND),
            passed(
                col("proved_by").isNotNull(),
                expected=_NOTHING_LOST,
                observed="the leader epoch starts at {start_offset}; broker {proved_by} had all committed records, and none beyond",
                because=(STARTED, *ELECTION),
            ),
            passed(
                col("answers_recorded") & bound.isNotNull(),
                expected="leader epoch {leader_epoch} of {topic}-{partition} starts at {exposed_high_watermark} or above",
            ),
            unverifiable(
                col("answers_recorded"),
                "no high watermark of an earlier epoch is recorded",
                expected=_NOT_KNOWN,
                because=(STARTED, *ELECTION, _AT_MOST),
            ),
            otherwise=unverifiable(
                None,
                "how far the epochs before were committed is not in the evidence (request log of the leader before, or a member of"
                " the ISR whose process lasted)",
                expected=_NOT_KNOWN,
                because=(STARTED, *ELECTION, _AT_MOST),
            ),
        )
