"""Fields of requests and responses as Kafka 1.0 to 2.7 prints them: `Struct.toString` of the protocol schemas.

One line per API, in the order of the protocol; a version prints exactly the fields that it has. A field is

    name[|other name …][kind][?][:versions][ [fields] ]

The first name is the field's in the structs of request_log.apis; fields without one there are skipped. The other names
are those of other releases: schemas were written by hand up to 2.1 to 2.6, API by API, and generated since.
Kinds: none an integer, `$` a string, `$-` one without commas, `!` a boolean, `#` integers, `$#` strings (split at
commas), `@` integers that are each wrapped in a struct, `*` records, `~` bytes, of which only the size is printed,
`%` aborted transactions, `^` a tagged struct, `(fields)` fields of a struct that later releases dissolved. `?` may be
null. Versions: `:3`, `:3+`, `:1-2`. From the version `flexible` on, structs close with their tagged fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NEVER: Final = 99


@dataclass(frozen=True)
class Text:
    """The schemas of an API. requests: alternatives that names alone can't distinguish. flexible: first version with tags."""

    requests: tuple[str, ...]
    response: str
    flexible: int = NEVER


_STATE: Final = (
    "partition_index|partition controller_epoch leader leader_epoch isr# zk_version replicas# "
    "adding_replicas#:3+ removing_replicas#:3+ is_new!:1+"
)
_CACHED: Final = (
    "partition_index|partition controller_epoch leader leader_epoch isr# zk_version replicas# offline_replicas#:4+"
)
_ERRORS: Final = "error_code partition_errors|partitions[topic_name|topic$ partition_index|partition error_code]"
_METADATA_OPTIONS: Final = (
    "allow_auto_topic_creation!:4+ include_cluster_authorized_operations!:8+ include_topic_authorized_operations!:8+"
)
_PRODUCER: Final = "transactional_id$ producer_id producer_epoch"
_ELECTION: Final = Text(
    ("election_type:1+ topic_partitions?[topic$ partition_id#] timeout_ms",),
    "throttle_time_ms error_code:1+ "
    "replica_election_results[topic$ partition_result[partition_id error_code error_message$?]]",
    flexible=2,
)

_CONFIGURED: Final = "throttle_time_ms responses|resources[error_code error_message$? resource_type resource_name$]"

TEXTS: Final[dict[str, Text]] = {
    "FETCH": Text(
        (
            "replica_id max_wait_ms|max_wait_time min_bytes max_bytes:3+ isolation_level:4+ session_id:7+ "
            "session_epoch|epoch:7+ topics[topic$ partitions[partition current_leader_epoch:9+ fetch_offset "
            "last_fetched_epoch:12+ log_start_offset:5+ partition_max_bytes|max_bytes]] "
            "forgotten_topics_data|forgetten_topics_data:7+[topic$ partitions#] rack_id$:11+",
        ),
        "throttle_time_ms:1+ error_code:7+ session_id:7+ responses[topic$ partition_responses["
        "partition_header(partition error_code high_watermark last_stable_offset:4+ log_start_offset:5+ "
        "aborted_transactions%:4+ preferred_read_replica:11+) record_set_size_in_bytes|record_set* "
        "diverging_epoch^:12+[epoch end_offset] current_leader^:12+[leader_id leader_epoch]]]",
        flexible=12,
    ),
    "LIST_OFFSETS": Text(
        (
            "replica_id isolation_level:2+ topics[name|topic$ partitions["
            "partition_index|partition current_leader_epoch:4+ timestamp max_num_offsets:0]]",
        ),
        "throttle_time_ms:2+ topics|responses[name|topic$ partitions|partition_responses[partition_index|partition "
        "error_code old_style_offsets|offsets|offsets'#:0 timestamp:1+ offset:1+ leader_epoch:4+]]",
    ),
    "OFFSET_FOR_LEADER_EPOCH": Text(
        ("replica_id:3+ topics[topic$ partitions[partition current_leader_epoch:2+ leader_epoch]]",),
        "throttle_time_ms:2+ topics[topic$ partitions[error_code partition leader_epoch:1+ end_offset]]",
    ),
    "METADATA": Text(
        (
            f"topics?[name$] {_METADATA_OPTIONS}",
            f"topics$#? {_METADATA_OPTIONS}",
        ),
        "throttle_time_ms:3+ brokers[node_id host$ port rack$?:1+] cluster_id$?:2+ controller_id:1+ "
        "topics|topic_metadata[error_code name|topic$ is_internal!:1+ partitions|partition_metadata[error_code "
        "partition_index|partition leader_id|leader leader_epoch:7+ replica_nodes|replicas# isr_nodes|isr# "
        "offline_replicas#:5+] topic_authorized_operations:8+] cluster_authorized_operations:8+",
        flexible=9,
    ),
    "LEADER_AND_ISR": Text(
        (
            "controller_id controller_epoch broker_epoch:2+ "
            f"ungrouped_partition_states|partition_states:0-1[topic_name|topic$ {_STATE}] "
            f"topic_states:2+[topic_name|topic$ partition_states[{_STATE}]] "
            "live_leaders[broker_id|id host_name|host$ port]",
        ),
        _ERRORS,
        flexible=4,
    ),
    "STOP_REPLICA": Text(
        (
            "controller_id controller_epoch broker_epoch:1+ delete_partitions!:0-2 "
            "ungrouped_partitions|partitions:0[topic_name|topic$ partition_index|partition] "
            "topics|partitions:1-2[name|topic$ partition_indexes|partition_ids#] "
            "topic_states:3+[topic_name$ partition_states[partition_index leader_epoch delete_partition!]]",
        ),
        _ERRORS,
        flexible=2,
    ),
    "UPDATE_METADATA": Text(
        (
            "controller_id controller_epoch broker_epoch:5+ "
            f"ungrouped_partition_states|partition_states:0-4[topic_name|topic$ {_CACHED}] "
            f"topic_states:5+[topic_name|topic$ partition_states[{_CACHED}]] "
            "live_brokers[id v0_host|host$:0 v0_port|port:0 endpoints|end_points:1+[port host$ "
            "listener|listener_name$:3+ security_protocol|security_protocol_type] rack$?:2+]",
        ),
        "error_code",
        flexible=6,
    ),
    "CONTROLLED_SHUTDOWN": Text(
        ("broker_id broker_epoch:2+",),
        "error_code remaining_partitions|partitions_remaining[topic_name|topic$ partition_index|partition]",
        flexible=3,
    ),
    "ALTER_ISR": Text(
        ("broker_id broker_epoch topics[name$ partitions[partition_index leader_epoch new_isr# current_isr_version]]",),
        "throttle_time_ms error_code topics[name$ partitions[partition_index error_code leader_id leader_epoch isr# "
        "current_isr_version]]",
        flexible=0,
    ),
    "OFFSET_COMMIT": Text(
        (
            "group_id$ generation_id:1+ member_id$:1+ retention_time_ms|retention_time:2-4 group_instance_id$?:7+ "
            "topics[name|topic$ partitions[partition_index|partition committed_offset|offset "
            "commit_timestamp|timestamp:1 committed_leader_epoch|leader_epoch:6+ committed_metadata|metadata$?]]",
        ),
        "throttle_time_ms:3+ "
        "topics|responses[name|topic$ partitions|partition_responses[partition_index|partition error_code]]",
        flexible=8,
    ),
    "TXN_OFFSET_COMMIT": Text(
        (
            "transactional_id$ group_id$ producer_id producer_epoch generation_id:3+ member_id$:3+ "
            "group_instance_id$?:3+ topics[name|topic$ partitions[partition_index|partition committed_offset|offset "
            "committed_leader_epoch|leader_epoch:2+ committed_metadata|metadata$?]]",
        ),
        "throttle_time_ms topics[name|topic$ partitions[partition_index|partition error_code]]",
        flexible=3,
    ),
    "OFFSET_FETCH": Text(
        (
            "group_id$ topics?[name|topic$ partition_indexes#] require_stable!:7+",
            "group_id$ topics?[name|topic$ partition_indexes|partitions@]",
        ),
        "throttle_time_ms:3+ topics|responses[name|topic$ partitions|partition_responses[partition_index|partition "
        "committed_offset|offset committed_leader_epoch|leader_epoch:5+ metadata$? error_code]] whole|error_code:2+",
        flexible=6,
    ),
    "JOIN_GROUP": Text(
        (
            "group_id$ session_timeout_ms|session_timeout rebalance_timeout_ms|rebalance_timeout:1+ member_id$ "
            "group_instance_id$?:5+ protocol_type$ protocols|group_protocols[name|protocol_name$ metadata|protocol_metadata~]",
        ),
        "throttle_time_ms:2+ error_code generation_id protocol_type$?:7+ protocol_name|group_protocol$? leader|leader_id$ "
        "member_id$ members[member_id$ group_instance_id$?:5+ metadata|member_metadata~]",
        flexible=6,
    ),
    "SYNC_GROUP": Text(
        (
            "group_id$ generation_id member_id$ group_instance_id$?:3+ protocol_type$?:5+ protocol_name$?:5+ "
            "assignments|group_assignment[member_id$ assignment|member_assignment~]",
        ),
        "throttle_time_ms:1+ error_code protocol_type$?:5+ protocol_name$?:5+ assignment|member_assignment~",
        flexible=4,
    ),
    "CREATE_TOPICS": Text(
        (
            "topics|create_topic_requests[name|topic$ num_partitions replication_factor "
            "assignments|replica_assignment[partition_index|partition broker_ids|replicas#] "
            "configs|config_entries[name|config_name$ value|config_value$?]] timeout_ms|timeout validate_only!:1+",
        ),
        "throttle_time_ms:2+ topics|topic_errors[name|topic$ error_code error_message$?:1+ num_partitions:5+ "
        "replication_factor:5+ configs?:5+[name$ value$? read_only! config_source is_sensitive!]]",
        flexible=5,
    ),
    "DELETE_TOPICS": Text(
        ("topic_names|topics$# timeout_ms|timeout",),
        "throttle_time_ms:1+ responses|topic_error_codes[name|topic$- error_code error_message$?:5+]",
        flexible=4,
    ),
    "DELETE_RECORDS": Text(
        ("topics[name|topic$ partitions[partition_index|partition offset]] timeout_ms|timeout",),
        "throttle_time_ms topics[name|topic$ partitions[partition_index|partition low_watermark error_code]]",
        flexible=2,
    ),
    "ALTER_CONFIGS": Text(
        (
            "resources[resource_type resource_name$ "
            "configs|config_entries[name|config_name$ value|config_value$?]] validate_only!",
        ),
        _CONFIGURED,
        flexible=2,
    ),
    "INCREMENTAL_ALTER_CONFIGS": Text(
        ("resources[resource_type resource_name$ configs[name$ config_operation value$?]] validate_only!",),
        _CONFIGURED,
        flexible=1,
    ),
    "PRODUCE": Text(
        ("acks timeout num_partitions|numPartitions", "acks timeout partition_sizes|partitionSizes$"),
        "responses[name|topic$ partition_responses[index|partition error_code base_offset log_append_time:2+ "
        "log_start_offset:5+ record_errors:8+[batch_index batch_index_error_message$?] error_message$?:8+]] throttle_time_ms:1+",
    ),
    "INIT_PRODUCER_ID": Text(
        ("transactional_id$? transaction_timeout_ms producer_id:3+ producer_epoch:3+",),
        "throttle_time_ms error_code producer_id producer_epoch",
        flexible=2,
    ),
    "ADD_PARTITIONS_TO_TXN": Text(
        (f"{_PRODUCER} topics[name|topic$ partitions#]",),
        "throttle_time_ms results|errors[name|topic$ results|partition_errors[partition_index|partition error_code]]",
    ),
    "ADD_OFFSETS_TO_TXN": Text((f"{_PRODUCER} group_id$",), "throttle_time_ms error_code"),
    "END_TXN": Text((f"{_PRODUCER} committed|transaction_result!",), "throttle_time_ms error_code"),
    "WRITE_TXN_MARKERS": Text(
        (
            "markers|transaction_markers[producer_id producer_epoch transaction_result! "
            "topics[name|topic$ partition_indexes|partitions#] coordinator_epoch]",
        ),
        "markers|transaction_markers[producer_id topics[name|topic$ partitions[partition_index|partition error_code]]]",
    ),
    "ELECT_LEADERS": _ELECTION,
    "ELECT_PREFERRED_LEADERS": _ELECTION,
}
RENAMED: Final = {"ELECT_PREFERRED_LEADERS": "ELECT_LEADERS"}  # 2.2 and 2.3
