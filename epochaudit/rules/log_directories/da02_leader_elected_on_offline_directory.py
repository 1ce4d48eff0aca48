"""DA-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.log_directories.missing import REGISTRATION_UNKNOWN
from epochaudit.rules.reasons import log_incomplete
from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("DA-02", frame="log_directories", kip="KIP-858", severity=CRITICAL, since="3.7")
class LeaderElectedOnOfflineDirectory(Rule):
    """A replica was elected although its log directory was offline.

    ## What it checks
    Each change record of the metadata log that makes another replica the leader of a partition. The directory that the
    controller had assigned to that replica before the record is one of the log directories with which the broker is
    registered then.

    ## Why it matters
    The broker runs and is to lead, but can't read or write the partition. The partition has no leader that answers, and
    no election follows, because the broker is not fenced.

    ## Evidence needed
    The metadata log from its beginning, or with a snapshot.

    ## What is allowed
    A directory that is not assigned, or not migrated yet, counts as online. A lost one (AAAAAAAAAAAAAAAAAAAAAg) never does.
    A registration without directories, as before metadata.version 3.7-IV2, says nothing about them. A replica that the same
    record adds to the partition has no directory before it. A broker that is not registered is judged by LD-02.

    ## What to do
    See which directories broker and controller hold to be online: `kafka-log-dirs.sh --describe`, and the active controller's
    lines "marked offline". Move the leader to another member of the ISR with `kafka-leader-election.sh --election-type
    preferred`, or stop the broker: fencing it elects another. Then mend the directory and start the broker again. If the broker
    was elected as the last known leader, upgrade the controllers to 4.1, which check that broker, too.

    ## Example
    Broker 2 is registered with directory A, and its replica of orders-0 is on directory B, which failed. Broker 1 is fenced,
    and the record that follows elects broker 2.

    ## References
    KIP-858, Handle JBOD broker disk failure in KRaft; ReplicationControlManager.LeaderAcceptor;
    ClusterControlManager.hasOnlineDir; DirectoryId.isOnline.
    """

    evidence = {
        "the record of the election": "record_ref",
        "the leader before": "previous_leader_ref",
        "the directory of the leader's replica": "leader_directory_ref",
        "the leader's log directories": "registration_ref",
    }
    expected = "a leader whose log directory is online"
    observed = "leader {leader}, with its replica on {leader_directory}, which is not among its log directories {leader_log_dirs}"
    because = (
        "{topic}-{partition} had leader {previous_leader}; broker {leader} had its replica on {leader_directory}",
        "broker {leader} was registered with log directories {leader_log_dirs}",
        "the record at metadata offset {metadata_offset} makes it the leader",
    )

    def applies(self) -> Column:
        return col("elects") & F.coalesce(col("leader_registered"), F.lit(True))

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(
                col("directory_online").isNull(),
                REGISTRATION_UNKNOWN,
                observed="leader {leader}, with its replica on {leader_directory}",
            ),
            passed(
                F.size("leader_log_dirs") == 0,
                observed="leader {leader}, with its replica on {leader_directory}; its registration names no log directories",
                because=(self.because[0], self.because[2]),
            ),
            passed(
                col("directory_online"),
                observed="leader {leader}, with its replica on {leader_directory}, one of its log directories",
            ),
            log_incomplete(),
            otherwise=violation(),
        )
