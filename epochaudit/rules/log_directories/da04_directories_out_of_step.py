"""DA-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import REGISTER_BROKER_RECORD
from epochaudit.rules.reasons import log_incomplete
from epochaudit.rules.rule import MEDIUM, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("DA-04", frame="log_directories", kip="KIP-858", severity=MEDIUM, since="3.7")
class DirectoriesOutOfStep(Rule):
    """A partition had more or fewer directories than replicas, or two brokers were registered with one log directory.

    ## What it checks
    Two kinds of subjects in the metadata log. After each record of a partition that has directories, there are as many of them
    as replicas. And a broker that registers brings no log directory with which another broker is registered then.

    ## Why it matters
    The list of directories is read by the place of the replica. If it is out of step, the controller takes a replica for one
    on another directory: it keeps replicas of a failed disk in ISRs, and moves others for nothing. A directory of two brokers
    is a copied or shared disk: both write to it, or one of them serves what the other wrote.

    ## Evidence needed
    The metadata log from its beginning, or with a snapshot.

    ## What is allowed
    Partitions without directories, from before metadata.version 3.7-IV2. A list in which no directory has been migrated fits
    any number of replicas. A directory may move to another node if the former broker was unregistered before, or had reported
    it as offline.

    ## What to do
    For a shared directory: stop the broker that registered last, and compare `directory.id` in meta.properties of both. Give the
    copy a directory of its own: empty it and format it with `kafka-storage.sh format`. For lists of different lengths: a
    controller refuses such a record when it replays it, so keep the log and its snapshots, look for EP-05 and EP-06, which
    report a damaged copy, and do not restart the controllers that still run.

    ## Example
    The disk of broker 2 is cloned for the new broker 4. Broker 4 registers with the directory with which broker 2 is registered.

    ## References
    KIP-858, Handle JBOD broker disk failure in KRaft; PartitionRegistration.checkDirectories;
    ClusterControlManager.registerBroker (INVALID_REGISTRATION), updateDirectories.
    """

    evidence = {
        "the record": "record_ref",
        "the record that set the replicas": "replicas_ref",
        "the record that set the directories": "directories_ref",
        "the registration of the other broker": "shared_ref",
    }
    expected = "a directory for each of replicas {replicas}"
    observed = "{directory_count} directories for {replica_count} replicas: {directories}"
    because = (
        "the record at metadata offset {metadata_offset} leaves {topic}-{partition} with replicas {replicas} "
        "and directories {directories}",
    )

    def applies(self) -> Column:
        return (col("event_type") == REGISTER_BROKER_RECORD) | col("replicas").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        registers = col("event_type") == REGISTER_BROKER_RECORD
        no_other = "no log directory of broker {broker_id} with which another broker is registered"
        registered = "the record at metadata offset {metadata_offset} registers broker {broker_id} with log directories {log_dirs}"
        return first_of(
            passed(~registers & (col("directory_count") == col("replica_count")), observed="as many: {directories}"),
            passed(col("unmigrated"), observed="no directory has been migrated, which fits any replicas"),
            log_incomplete(registers, expected=no_other, observed="log directories {log_dirs}", because=(registered,)),
            violation(
                col("shared_with").isNotNull(),
                expected=no_other,
                observed="broker {shared_with} was registered with {shared_dir}, too",
                because=("broker {shared_with} was registered with log directory {shared_dir}", registered),
            ),
            unverifiable(
                registers & ~col("log_complete"),
                "the metadata log does not reach back to all registrations",
                expected=no_other,
                observed="log directories {log_dirs}",
                because=(registered,),
            ),
            passed(
                registers,
                expected=no_other,
                observed="log directories {log_dirs}, of no other broker",
                because=(registered,),
            ),
            log_incomplete(),
            otherwise=violation(),
        )
