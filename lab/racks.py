"""Brokers in racks of their own, from which consumers of the same rack read (KIP-392)."""

from __future__ import annotations

import re
from typing import Final

from lab.cluster import Cluster
from lab.processes import RunError

RACKS: Final = {
    "broker.rack": "rack-{node}",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
NAMED: Final = re.compile(r'"preferredReadReplica":\d|preferred_read_replica=\d')
"""In an answer of a leader that names the follower to read from."""


def require_reads_from_followers(cluster: Cluster) -> None:
    """Raises RunError if no leader has named a follower to a consumer."""
    if not any(cluster.nodes[one].logged(NAMED, "kafka-request.log*") for one in cluster.layout.brokers):
        raise RunError("no leader has named a follower to read from")
