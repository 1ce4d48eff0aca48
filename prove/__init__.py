"""An oracle and a simulator: epochaudit's verdicts are compared with those of a plain replay, on random histories.

    simulator ──► history ──► rendering ──► epochaudit ──► verdicts ─┐
                     │                                               ├─► comparison
                     └──────────────► oracle ───────────► verdicts ──┘

* `history.py`: events of one cluster as dataclasses, each with its host's own clock.
* `simulation.py`: what all simulators have: a clock, a `Random`, and the history so far.
* `zookeeper_cluster.py`, `zookeeper_incidents.py`, `zookeeper_isr.py`, `quorum_cluster.py`, `quorum_incidents.py`,
  `broker_lifecycle.py`, `log_directories.py`, `raft_quorum.py`, `replicating_cluster.py`, `data_plane_cluster.py`,
  `zookeeper_data_plane.py`, `fetch_sessions.py`, `consumer.py`: state machines of controllers, brokers and clients. A `Random` makes
  every choice, so a seed, or Hypothesis, decides which elections, restarts, re-creations, delays, duplicates and planted breaches there
  are.
* `coordination.py`: requests to coordinators as dataclasses, and `coordinator_lines.py`, how they are printed.
  `coordinator_cluster.py`: brokers that coordinate, with a log that is written, loaded and at times lost. `transactions.py` and
  `producers.py`, `group_coordinators.py` and `group_members.py`, `share_coordinators.py`: coordinators and their clients.
* `histories.py`: a seed's history.
* `rendering.py`, `quorum_lines.py`, `session_lines.py`, `server_log_lines.py`: the lines that Kafka would have written, in the layout
  of the history's release.
* `oracle/`: a file per family of rules, one function per rule, sequential, without Spark, sharing no code with frames and rules.
  `broker_memory.py` replays a broker's log, `metadata_image.py` the metadata log,
  `replication.py` and `lineage.py` who led from where. `catalogue.py` lists the rules.
* `comparison.py`: one audit of many histories, each a cluster of its own; every verdict of both sides, subject by subject.
* `__main__.py`: `python -m prove`, which `make prove` runs.
* `mutants/`: mutation testing of rules and frames by their cases; it needs neither simulator nor oracle.

A disagreement is an error of the oracle, of the simulator (lines that Kafka never writes) or of epochaudit. Kafka's source decides.
"""
