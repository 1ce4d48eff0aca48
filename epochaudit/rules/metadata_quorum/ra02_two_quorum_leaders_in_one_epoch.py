"""RA-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.metadata_quorum.formatted_anew import maybe_formatted_anew
from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, violation


@rule("RA-02", frame="raft_epochs", kip="KIP-595", severity=CRITICAL, since="2.8")
class TwoQuorumLeadersInOneEpoch(Rule):
    """The metadata quorum had two leaders in one epoch.

    ## What it checks
    Each epoch of the quorum whose leader is recorded: in answers of controllers, in a BeginQuorumEpoch or EndQuorumEpoch that was
    accepted, or refused as too old (74), in log lines of nodes that became leader or follower, and in LeaderChange records of any
    copy of the metadata log. All of them name one leader.

    ## Why it matters
    The leader of the quorum is the active controller. Two of one epoch write different metadata at the same offsets, and nothing
    fences either of them: elections, ISRs and topics that one has committed are lost to the other.

    ## Evidence needed
    Any of server.log, the metadata log and request logs of the controllers in JSON; the more, the surer.

    ## What is allowed
    An epoch without a leader, and one whose leader left no record. A Fetch that waited is left out: its answer may be built while
    the epoch changes. If the quorum was formatted anew while it kept its logs, epochs begin again, which is unverifiable: its
    requests state two cluster ids, a node that lost its epoch logs a leader of a lower one, or a majority of the voters in
    server.log fall to epoch 0 and then log a leader of an epoch that they had been in. A single disk that was replaced does not begin
    epochs again.

    ## What to do
    Stop the controllers, and first copy the folder `__cluster_metadata-0`, with `quorum-state`, of each. Look whether a controller
    was started twice with one node id, or from a copied or restored disk: RA-03 names a voter that voted twice. Start
    the majority whose log is right (EP-06 shows where they differ), and let the others fetch it into empty folders.

    ## Example
    Controllers 1 and 2 each collect a majority in epoch 5, because controller 3 lost its vote with its disk.

    ## References
    KIP-595, A Raft Protocol for the Metadata Quorum; QuorumState; KafkaRaftClient.maybeTransition; KAFKA-10527.
    """

    evidence = {"a statement of one leader": "leader_ref", "a statement of another": "other_ref"}
    expected = "one leader of the quorum in epoch {raft_epoch}"
    observed = "{leader} and {other_leader}"
    because = ("a log states {leader} as the leader of epoch {raft_epoch}", "another states {other_leader}")
    caused_by = ("RA-03",)

    def applies(self) -> Column:
        return col("leader").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(col("other_leader").isNull(), observed="{leader} alone", because=self.because[:1]),
            maybe_formatted_anew(col("other_leader").isNotNull()),
            otherwise=violation(),
        )
