"""EL-07."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.views import holds
from epochaudit.rules.eligible_leader_replicas.missing import STATES_UNKNOWN, level_unknown
from epochaudit.rules.reasons import CONTROLLER_VERSION_UNKNOWN, log_incomplete
from epochaudit.rules.rule import LOW, MEDIUM, Branch, Rule, exposed, first_of, passed, rule, unverifiable, violation


@rule("EL-07", frame="eligible_replicas", kip="KIP-966", severity=MEDIUM, since="4.3")
class EligibleReplicaForgotten(Rule):
    """A complete replica was taken off the eligible leader replicas (ELR) without a reason.

    ## What it checks
    Each change record of the metadata log that removes a member from the ELR without adding it to the ISR. If the ISR
    did not grow, it still has fewer than min.insync.replicas members, and the ELR must keep its members. If it grew, it
    may have reached that number, and then all members leave the ELR: such a record is judged only if it leaves an ELR
    that is not empty.
    Records are judged while eligible.leader.replicas.version is 1 or above.

    ## Why it matters
    The replica has all acknowledged records, and the controller no longer knows. If the ISR becomes empty, the partition
    stays without a leader although this replica is there, or an unclean election takes one that lacks records. The severity
    is low where a controller before 4.3 empties the list as it assigns a log directory.

    ## Evidence needed
    The metadata log from its beginning, or with a snapshot. The controller's version, from its server.log or capture.toml,
    unless metadata.version is 30 (4.3-IV0) or above.

    ## What is allowed
    * An unclean election, after which no other replica is complete.
    * A broker that registers after an unclean shutdown leaves the ELR of each partition: these records come directly before its
      RegisterBrokerRecord. If the log ends there, or another controller takes over, the removal is unverifiable.
    * An ISR with as many members as the topic's partition 0 has replicas, which limits min.insync.replicas.
    * Controllers of 4.0 to 4.2 empty the ELR whenever a broker assigns a replica to a log directory, on a healthy cluster,
      too. That is exposed if the partition has no leader then, and the next one is a replica that was not in the ELR; else it
      is a pass.

    ## What to do
    If the partition has no leader, each of the replicas named has all acknowledged records. Start one of them, keep the other
    replicas of the partition stopped, and elect it by `kafka-leader-election.sh --election-type unclean`. If another was
    elected already, TR-06 states what was lost: copy the logs of the replicas named before they follow it and truncate.
    Upgrade the controllers to 4.3. Until then, move replicas between log directories only while their partitions have
    min.insync.replicas members in the ISR.

    ## Example
    orders-0 has no leader, ISR [] and ELR [2, 3]. Broker 4 moves its replica to another log directory, and the record of a
    4.1 controller sets the directories and an empty ELR. Broker 2 comes back and is not elected; an unclean election takes
    broker 4, which was far behind.

    ## References
    KIP-966, Eligible Leader Replicas; PartitionChangeBuilder.maybePopulateTargetElr, maybeUpdateRecordElr;
    ReplicationControlManager.handleAssignReplicasToDirs, handleBrokerShutdown; apache/kafka pull request 20716.
    """

    evidence = {"the record": "state_ref", "the state before": "previous_ref", "the next election": "next_leader_ref"}
    expected = "{forgotten} still in the ELR, as the ISR did not reach min.insync.replicas"
    observed = "ELR {elr}"
    because = (
        "{topic}-{partition} had leader {previous_leader}, ISR {previous_isr} and ELR {previous_elr}",
        "the record at metadata offset {metadata_offset} leaves leader {leader}, ISR {isr} and ELR {elr}",
    )

    def applies(self) -> Column:
        emptied = holds(col("isr_grows") & (F.size("elr") == 0))
        return col("changes") & (F.size("forgotten") > 0) & ~emptied

    def verdict(self) -> tuple[Branch, ...]:
        one = F.size("forgotten") == 1
        all_in_sync = col("isr_members") >= col("partition_0_replicas")
        may_stay = "{forgotten} in the ELR, unless there was a reason to take it off"
        next_election = "the next leader, {next_leader}, was elected uncleanly, and was not in the ELR"
        return first_of(
            level_unknown(expected=may_stay),
            passed(
                col("unclean"),
                expected="no other replica in the ELR after an unclean election",
                observed="leader {leader}, elected uncleanly, and ELR {elr}",
            ),
            passed(
                one & F.array_contains("forgotten", col("registers")),
                expected="an ELR without broker {registers}, which registers after an unclean shutdown",
            ),
            unverifiable(col("previous_isr").isNull(), STATES_UNKNOWN, expected=may_stay),
            log_incomplete(),
            unverifiable(
                one & ~col("event_ended"),
                "the metadata log does not have the end of the event, which may be a broker's registration",
                expected=may_stay,
            ),
            passed(
                all_in_sync,
                expected="an empty ELR, as the ISR has as many members as partition 0 had replicas, {partition_0_replicas}",
            ),
            unverifiable(
                (col("isr_members") > 0) & col("partition_0_replicas").isNull(),
                "the replicas of the topic's partition 0 are not in the evidence",
                expected=may_stay,
            ),
            violation((F.size("elr") > 0) | col("remembers")),
            exposed(
                ~col("remembers") & col("left_to_unclean") & ~F.array_contains("forgotten", col("next_leader")),
                "controllers before 4.3 empty the ELR when a replica is assigned to a log directory",
                because=(*self.because, next_election),
            ),
            passed(
                ~col("remembers"),
                expected="{forgotten} in the ELR, or an empty one, as controllers before 4.3 leave it",
            ),
            otherwise=unverifiable(None, CONTROLLER_VERSION_UNKNOWN, expected=may_stay),
        )

    def severity_of(self) -> Column | None:
        return F.when(~col("remembers") & (F.size("elr") == 0), LOW)
