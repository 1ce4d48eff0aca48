"""DA-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.log_directories.missing import REGISTRATION_UNKNOWN
from epochaudit.rules.reasons import LOG_BEGINS_LATE, log_incomplete
from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("DA-01", frame="offline_directories", kip="KIP-858", severity=CRITICAL, since="3.7")
class ReplicaKeptOnOfflineDirectory(Rule):
    """A log directory of a broker went offline, and a partition kept its replica there as leader or in the ISR.

    ## What it checks
    When a broker reports log directories as offline, the controller takes the broker out of the ISR of each partition that has
    its replica there, elects other leaders, and then writes the remaining directories into the broker's registration. After
    that record no such partition has the broker as leader, or in an ISR with others. One subject per record; the finding names
    the first partition and the number of all.

    ## Why it matters
    The broker still runs, so nothing else takes the partition away from it. A partition that it leads has no leader that
    answers. One that has it in the ISR acknowledges no write with acks=all, and may elect it as leader.

    ## Evidence needed
    The metadata log from its beginning, or with a snapshot.

    ## What is allowed
    The last member of an ISR stays in it, with leader -1. A replica whose directory the controller did not know is not
    touched: the broker assigns a directory to it later, and the replica leaves the ISR then. A broker that lost all its
    directories stops; the record of that names no directory, and is not judged.

    ## What to do
    Stop the broker: fencing takes it out of the ISRs and moves its leaderships. Replace the disk, or take the directory out
    of log.dirs, before you start it again. Until then, `kafka-leader-election.sh --election-type preferred` for the partitions
    named may move the leader away.

    ## Example
    Broker 2 leads orders-0 in /data/b, and that disk fails. The record that leaves broker 2 with /data/a alone is written, and
    orders-0 still has leader 2.

    ## References
    KIP-858, Handle JBOD broker disk failure in KRaft; ReplicationControlManager.handleDirectoriesOffline,
    processBrokerHeartbeat; PartitionChangeBuilder; ClusterControlManager.replay.
    """

    evidence = {
        "the record that takes the directory offline": "record_ref",
        "the broker's registration before": "previous_ref",
        "the first partition's directories": "remaining_directory_ref",
        "the first partition's leader": "remaining_leader_ref",
        "the first partition's ISR": "remaining_isr_ref",
    }
    expected = "no partition on directories {offline_dirs} keeps broker {broker_id} as leader, or in an ISR with others"
    observed = "no partition kept broker {broker_id}"
    because = (
        "broker {broker_id} was registered with log directories {previous_log_dirs}",
        "the record at metadata offset {metadata_offset} leaves it with {log_dirs}",
    )

    def applies(self) -> Column:
        return F.coalesce(F.size("offline_dirs") > 0, F.lit(True))

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(
                col("offline_dirs").isNull(),
                REGISTRATION_UNKNOWN,
                expected="no partition on an offline directory keeps broker {broker_id} as leader, or in an ISR with others",
                observed="which directories went offline is not recorded",
            ),
            log_incomplete(observed="whether a partition kept broker {broker_id} is not certain"),
            violation(
                col("remaining_in").isNotNull(),
                observed="partitions that kept broker {broker_id}: {remaining_in}, the first with leader {remaining_leader}, ISR"
                " {remaining_isr}",
                because=(
                    *self.because,
                    "after it, {topic}-{partition} has its replica of broker {broker_id} on {remaining_directory}, "
                    "leader {remaining_leader} and ISR {remaining_isr}",
                ),
            ),
            unverifiable(
                ~col("log_complete"),
                LOG_BEGINS_LATE,
                observed="no partition that kept broker {broker_id} is recorded",
            ),
            otherwise=passed(),
        )
