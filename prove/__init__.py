"""An oracle and a simulator: epochaudit's verdicts are compared with those of a plain replay, on random histories.

    simulator ──► history ──► rendering ──► epochaudit ──► verdicts ─┐
                     │                                               ├─► comparison
                     └──────────────► oracle ───────────► verdicts ──┘

* `history.py`: events of one cluster as dataclasses, each with its host's own clock; `coordination.py`: those of coordinators.
* `simulators/`: state machines of controllers, brokers and clients.
* `histories.py`: a seed's history.
* `rendering/`: the lines that Kafka would have written, in the layout of the history's release.
* `oracle/`: a file per family of rules, one function per rule, sequential, without Spark, sharing no code with frames and rules.
  `broker_memory.py` replays a broker's log, `metadata_image.py` the metadata log,
  `replication.py` and `lineage.py` who led from where. `catalogue.py` lists the rules.
* `comparison.py`: one audit of many histories, each a cluster of its own; every verdict of both sides, subject by subject.
* `__main__.py`: `python -m prove`, which `make prove` runs.
* `mutants/`: mutation testing of rules and frames by their cases; it needs neither simulator nor oracle.

A disagreement is an error of the oracle, of the simulator (lines that Kafka never writes) or of epochaudit. Kafka's source decides.
"""
