"""State machines of controllers, brokers and clients that make histories: a module for each kind of cluster.

A `Random` makes every choice, so a seed, or Hypothesis, decides which elections, restarts, re-creations, delays, duplicates and planted
breaches there are.

* `simulation.py`: what all have: a clock, a `Random`, and the history so far.
* ZooKeeper mode: `zookeeper_cluster.py`, `zookeeper_incidents.py`, `zookeeper_isr.py`,
  `zookeeper_controller.py`, `zookeeper_data_plane.py`.
* KRaft: `quorum_cluster.py`, `quorum_incidents.py`, `broker_lifecycle.py`, `log_directories.py`, `raft_quorum.py`.
* Replication and its clients: `replica_log.py`, `replicating_cluster.py`, `data_plane_cluster.py`, `fetch_sessions.py`, `consumer.py`;
  `recreated_topics.py` has a topic that is created again, `epoch_caches.py` the leader epoch caches of a broker, `logs_on_disk.py`
  folders of replicas with their checkpoints, `replica_logs.py` those of all replicas of a partition, `stray_replicas.py` a broker that
  was down while replicas were taken from it, `tiered_topics.py` leaders with records in tiered storage.
* Coordinators: `coordinator_cluster.py` has brokers with a log that is written, loaded and at times lost; `transactions.py` and
  `producers.py`, `group_coordinators.py` and `group_members.py`, `share_coordinators.py` and
  `share_sessions.py` have coordinators, brokers and their clients.
"""
