"""The rules with an oracle, by kind of cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from prove.history import (
    CONTROLLER_QUORUM,
    EPOCH_CACHES,
    FETCH_SESSIONS,
    GROUP_MEMBERS,
    ISR_AT_ZOOKEEPER_CONTROLLER,
    ISR_IN_ZOOKEEPER,
    KRAFT,
    KRAFT_DATA_PLANE,
    LOGS_ON_DISK,
    PRODUCERS,
    RECREATED_TOPICS,
    REPLICA_LOGS,
    SHARE_GROUPS,
    STRAY_REPLICAS,
    TIERED_TOPICS,
    ZOOKEEPER,
    ZOOKEEPER_DATA_PLANE,
    History,
    Key,
    Verdict,
)
from prove.oracle import (
    broker_epoch,
    client_metadata,
    consumer_group,
    consumer_position,
    controller_epoch,
    eligible_leader_replicas,
    epoch_cache,
    epoch_order,
    fetch,
    fetch_session,
    high_watermark,
    isr,
    isr_expansion,
    leader_and_isr,
    leader_election,
    leader_hint,
    list_offsets,
    log_directories,
    log_start_offset,
    logs_on_disk,
    metadata_quorum,
    offset_commit,
    offset_for_leader_epoch,
    produce,
    producer_epoch,
    recreated_topic,
    replica_logs,
    share_group,
    share_session,
    stop_replica,
    stop_replica_sentinels,
    stray_replica,
    topic_id,
    truncation,
    unfencing,
    update_metadata,
)
from prove.oracle.verdicts import (
    key_of_broker,
    key_of_epoch,
    key_of_epoch_at_broker,
    key_of_fetch,
    key_of_leader_epoch,
    key_of_line,
    key_of_none,
    key_of_partition,
    key_of_request,
    key_of_topic_id,
)


@dataclass(frozen=True)
class OracleRule:
    """A rule's function, and how a row of epochaudit names its subject."""

    judge: Callable[[History], Iterable[tuple[str, Key]]]
    key: Callable[[int | None, Mapping[str, Any]], Key] = key_of_line


RULES: Final[dict[str, OracleRule]] = {
    "SR-01": OracleRule(stop_replica.sr01),
    "SR-02": OracleRule(stop_replica.sr02),
    "SR-03": OracleRule(stop_replica_sentinels.sr03),
    "SR-04": OracleRule(stop_replica_sentinels.sr04),
    "SR-05": OracleRule(stop_replica.sr05),
    "SR-06": OracleRule(fetch.sr06, key_of_fetch),
    "SR-07": OracleRule(stop_replica_sentinels.sr07),
    "SR-08": OracleRule(stop_replica.sr08),
    "LI-01": OracleRule(leader_and_isr.li01),
    "LI-02": OracleRule(leader_and_isr.li02),
    "LI-03": OracleRule(leader_and_isr.li03),
    "LI-04": OracleRule(leader_and_isr.li04),
    "LI-06": OracleRule(leader_and_isr.li06),
    "CE-01": OracleRule(controller_epoch.ce01, key_of_request),
    "UM-01": OracleRule(update_metadata.um01, key_of_request),
    "CE-02": OracleRule(controller_epoch.ce02, key_of_none),
    "LD-01": OracleRule(leader_election.ld01),
    "LI-05": OracleRule(leader_and_isr.li05),
    "CE-03": OracleRule(controller_epoch.ce03),
    "CE-04": OracleRule(controller_epoch.ce04),
    "BE-01": OracleRule(broker_epoch.be01, key_of_request),
    "BE-02": OracleRule(broker_epoch.be02, key_of_request),
    "UM-02": OracleRule(update_metadata.um02),
    "TI-01": OracleRule(topic_id.ti01),
    "TI-02": OracleRule(topic_id.ti02, key_of_fetch),
    "TI-05": OracleRule(topic_id.ti05, key_of_topic_id),
    "TI-06": OracleRule(topic_id.ti06),
    "FF-01": OracleRule(fetch.ff01, key_of_fetch),
    "FF-02": OracleRule(fetch.ff02, key_of_fetch),
    "FF-04": OracleRule(fetch.ff04, key_of_fetch),
    "LO-01": OracleRule(list_offsets.lo01),
    "LO-02": OracleRule(list_offsets.lo02),
    "OE-01": OracleRule(offset_for_leader_epoch.oe01),
    "OE-02": OracleRule(offset_for_leader_epoch.oe02),
}


QUORUM_RULES: Final[dict[str, OracleRule]] = {
    "IS-01": OracleRule(isr.is01),
    "IS-02": OracleRule(isr.is02),
    "IS-03": OracleRule(isr.is03),
    "IS-04": OracleRule(isr.is04),
    "IS-06": OracleRule(isr.is06),
    "IS-07": OracleRule(isr.is07, key_of_request),
    "IS-08": OracleRule(isr.is08),
    "IS-09": OracleRule(isr.is09, key_of_request),
    "IS-10": OracleRule(isr.is10),
    "IS-11": OracleRule(isr.is11),
    "IS-12": OracleRule(isr.is12),
    "IS-13": OracleRule(isr.is13),
    "IS-14": OracleRule(isr.is14),
    "IS-16": OracleRule(isr.is16),
    "IS-17": OracleRule(isr.is17),
    "LD-01": OracleRule(leader_election.ld01),
    "LD-02": OracleRule(leader_election.ld02),
    "LD-03": OracleRule(leader_election.ld03),
    "LD-04": OracleRule(leader_election.ld04, key_of_leader_epoch),
    "EL-01": OracleRule(eligible_leader_replicas.el01),
    "EL-02": OracleRule(eligible_leader_replicas.el02),
    "EL-03": OracleRule(eligible_leader_replicas.el03),
    "EL-04": OracleRule(eligible_leader_replicas.el04),
    "EL-05": OracleRule(eligible_leader_replicas.el05, key_of_request),
    "EL-07": OracleRule(eligible_leader_replicas.el07),
    "EP-01": OracleRule(epoch_order.ep01),
    "EP-02": OracleRule(epoch_order.ep02),
    "EP-03": OracleRule(epoch_order.ep03),
    "LD-06": OracleRule(leader_election.ld06),
    "EP-05": OracleRule(epoch_order.ep05, key_of_request),
    "EP-06": OracleRule(epoch_order.ep06, key_of_partition),
    "TI-03": OracleRule(topic_id.ti03),
    "TI-04": OracleRule(topic_id.ti04, key_of_topic_id),
    "TI-05": OracleRule(topic_id.ti05, key_of_topic_id),
    "TI-06": OracleRule(topic_id.ti06),
    "BE-03": OracleRule(broker_epoch.be03, key_of_request),
    "BE-04": OracleRule(broker_epoch.be04, key_of_request),
    "DA-01": OracleRule(log_directories.da01, key_of_request),
    "DA-02": OracleRule(log_directories.da02),
    "DA-04": OracleRule(log_directories.da04),
    "UF-01": OracleRule(unfencing.uf01),
    "UF-02": OracleRule(unfencing.uf02, key_of_request),
    "BE-05": OracleRule(broker_epoch.be05, key_of_request),
}


REPLICATION_RULES: Final[dict[str, OracleRule]] = {
    "AW-01": OracleRule(produce.aw01, key_of_epoch),
    "AW-02": OracleRule(produce.aw02),
    "BE-06": OracleRule(broker_epoch.be06, key_of_epoch_at_broker),
    "CO-01": OracleRule(offset_commit.co01),
    "CO-02": OracleRule(consumer_position.co02, key_of_fetch),
    "CO-03": OracleRule(offset_commit.co03),
    "CO-04": OracleRule(consumer_position.co04, key_of_fetch),
    "CO-05": OracleRule(offset_commit.co05),
    "FF-03": OracleRule(fetch.ff03, key_of_fetch),
    "FF-07": OracleRule(fetch.ff07, key_of_fetch),
    "FF-08": OracleRule(fetch.ff08, key_of_broker),
    "HW-01": OracleRule(high_watermark.hw01, key_of_epoch_at_broker),
    "HW-02": OracleRule(high_watermark.hw02, key_of_epoch_at_broker),
    "HW-03": OracleRule(high_watermark.hw03, key_of_epoch_at_broker),
    "HW-04": OracleRule(high_watermark.hw04, key_of_fetch),
    "HW-05": OracleRule(high_watermark.hw05, key_of_epoch_at_broker),
    "IS-15": OracleRule(isr.is15, key_of_epoch_at_broker),
    "LD-05": OracleRule(leader_election.ld05, key_of_fetch),
    "LH-01": OracleRule(leader_hint.lh01, key_of_epoch_at_broker),
    "LO-03": OracleRule(list_offsets.lo03),
    "LO-04": OracleRule(list_offsets.lo04),
    "LS-01": OracleRule(log_start_offset.ls01, key_of_epoch_at_broker),
    "LS-02": OracleRule(log_start_offset.ls02),
    "MD-01": OracleRule(client_metadata.md01, key_of_epoch_at_broker),
    "MD-02": OracleRule(client_metadata.md02),
    "MD-03": OracleRule(client_metadata.md03, key_of_epoch_at_broker),
    "MD-04": OracleRule(client_metadata.md04, key_of_epoch_at_broker),
    "MD-05": OracleRule(client_metadata.md05),
    "OE-03": OracleRule(offset_for_leader_epoch.oe03),
    "TR-01": OracleRule(consumer_position.tr01, key_of_fetch),
    "TR-02": OracleRule(consumer_position.tr02, key_of_fetch),
    "TR-03": OracleRule(truncation.tr03, key_of_fetch),
    "TR-04": OracleRule(truncation.tr04, key_of_fetch),
    "TR-05": OracleRule(truncation.tr05, key_of_fetch),
    "TR-06": OracleRule(truncation.tr06, key_of_epoch),
    "TR-07": OracleRule(truncation.tr07, key_of_fetch),
    "TR-08": OracleRule(consumer_position.tr08),
    "TR-09": OracleRule(truncation.tr09, key_of_fetch),
}
TRANSACTION_RULES: Final[dict[str, OracleRule]] = {
    "PE-01": OracleRule(producer_epoch.pe01),
    "PE-02": OracleRule(producer_epoch.pe02, key_of_none),
    "PE-03": OracleRule(producer_epoch.pe03, key_of_none),
    "PE-04": OracleRule(producer_epoch.pe04),
    "PE-05": OracleRule(producer_epoch.pe05, key_of_none),
}
GROUP_RULES: Final[dict[str, OracleRule]] = {
    "GE-01": OracleRule(consumer_group.ge01, key_of_request),
    "GE-02": OracleRule(consumer_group.ge02, key_of_request),
    "GE-03": OracleRule(consumer_group.ge03, key_of_request),
    "GE-04": OracleRule(consumer_group.ge04, key_of_request),
    "GE-05": OracleRule(consumer_group.ge05, key_of_request),
}
SHARE_RULES: Final[dict[str, OracleRule]] = {
    "SH-01": OracleRule(share_group.sh01, key_of_fetch),
    "SH-02": OracleRule(share_group.sh02, key_of_fetch),
    "SH-03": OracleRule(share_session.sh03),
}
RAFT_RULES: Final[dict[str, OracleRule]] = {
    "RA-01": OracleRule(metadata_quorum.ra01, key_of_request),
    "RA-02": OracleRule(metadata_quorum.ra02, key_of_broker),
    "RA-03": OracleRule(metadata_quorum.ra03, key_of_broker),
    "RA-04": OracleRule(metadata_quorum.ra04, key_of_broker),
    "RA-05": OracleRule(metadata_quorum.ra05, key_of_broker),
    "RA-07": OracleRule(metadata_quorum.ra07, key_of_broker),
    "RA-08": OracleRule(metadata_quorum.ra08, key_of_none),
}
SESSION_RULES: Final = {"FF-05": OracleRule(fetch_session.ff05, key_of_fetch)}
ISR_RULES: Final = {"FF-06": OracleRule(isr_expansion.ff06, key_of_fetch)}
ZOOKEEPER_CONTROLLER_RULES: Final = {"IS-05": OracleRule(isr.is05, key_of_fetch)}
RECREATION_RULES: Final = {
    "CO-06": OracleRule(recreated_topic.co06),
    "TI-08": OracleRule(recreated_topic.ti08, key_of_fetch),
    "TI-09": OracleRule(recreated_topic.ti09, key_of_fetch),
}
CACHE_RULES: Final = {"EP-04": OracleRule(epoch_cache.ep04)}
STRAY_RULES: Final = {"TI-07": OracleRule(stray_replica.ti07)}
REPLICA_LOG_RULES: Final = {"EP-07": OracleRule(replica_logs.ep07, replica_logs.key_of_pair)}
TIERED_RULES: Final = {"LS-04": OracleRule(log_start_offset.ls04, key_of_fetch)}
DISK_RULES: Final = {"EP-08": OracleRule(logs_on_disk.ep08), "EP-09": OracleRule(logs_on_disk.ep09)}
FENCES: Final = {rule: RULES[rule] for rule in ("FF-01", "FF-02", "LO-01", "LO-02", "OE-01", "OE-02")}
OF_RECORDS: Final = ("BE-06", "FF-03", "HW-05", "IS-15")
"""Rules of replication that ask what was the ISR, or who was a replica: in ZooKeeper mode no log shows the ISRs that leaders write."""
ZOOKEEPER_REPLICATION_RULES: Final = RULES | {
    rule: one for rule, one in REPLICATION_RULES.items() if rule not in OF_RECORDS
}
RULES_OF: Final[Mapping[str, Mapping[str, OracleRule]]] = {
    ZOOKEEPER: RULES,
    ZOOKEEPER_DATA_PLANE: ZOOKEEPER_REPLICATION_RULES,
    ISR_IN_ZOOKEEPER: ISR_RULES,
    ISR_AT_ZOOKEEPER_CONTROLLER: ZOOKEEPER_CONTROLLER_RULES,
    KRAFT: QUORUM_RULES,
    KRAFT_DATA_PLANE: QUORUM_RULES | REPLICATION_RULES | FENCES,
    CONTROLLER_QUORUM: RAFT_RULES,
    FETCH_SESSIONS: SESSION_RULES,
    EPOCH_CACHES: CACHE_RULES,
    LOGS_ON_DISK: DISK_RULES,
    REPLICA_LOGS: REPLICA_LOG_RULES,
    TIERED_TOPICS: TIERED_RULES,
    STRAY_REPLICAS: STRAY_RULES,
    RECREATED_TOPICS: RECREATION_RULES,
    PRODUCERS: TRANSACTION_RULES,
    GROUP_MEMBERS: GROUP_RULES,
    SHARE_GROUPS: SHARE_RULES,
}
"""Kind of history -> the rules that the oracle judges."""
ALL_RULES: Final = frozenset(rule for rules in RULES_OF.values() for rule in rules)


def rules_of(history: History) -> Mapping[str, OracleRule]:
    """The rules that the oracle judges in a history's kind of cluster."""
    return RULES_OF[history.release.kind]


def verdicts_of(rule: str, history: History) -> Iterator[Verdict]:
    """The oracle's verdicts of one rule on a history."""
    for verdict, key in rules_of(history)[rule].judge(history):
        yield rule, verdict, key
