"""RA-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.metadata_quorum.formatted_anew import maybe_formatted_anew
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, violation


@rule("RA-04", frame="quorum_votes", kip="KIP-595", severity=HIGH, since="2.8")
class VotersEpochWentBack(Rule):
    """A voter of the metadata quorum went back to an epoch below one that it had been in.

    ## What it checks
    The epochs in a voter's log lines about its Raft state, in the order of its log: no line states a lower epoch than the line
    before it. A node writes its epoch and its vote to the file `quorum-state` before it uses them, so a restart keeps both.

    ## Why it matters
    The epoch and the vote are what fences older leaders and candidates. A voter that has forgotten them may follow a leader that was
    replaced, and give a second vote in an epoch in which it had voted: two controllers may then write metadata in one epoch (RA-02).

    ## Evidence needed
    server.log or controller.log of the controllers ("Completed transition to …"). Both lines are of one node.

    ## What is allowed
    Epoch 0: the metadata directory was emptied, as when a disk is replaced, or formatted. RA-02 and RA-03 judge what comes of it. Nodes
    that only follow have no vote, and are no subjects; brokers in a migration from ZooKeeper delete their copy at each start. If the
    quorum may have been formatted anew (RA-02), it is unverifiable.

    ## What to do
    Stop the controller if the others have a leader without it. Its metadata directory is an older copy: a restored snapshot of a
    disk, another directory in `metadata.log.dir`, or a disk that loses writes. Move `__cluster_metadata-0` aside, and start the
    controller with an empty one; with kraft.version 1, remove the voter and add it again. RA-03 names votes that were given twice.

    ## Example
    Controller 3 follows in epoch 9. Its disk is restored from yesterday's snapshot, and it starts in epoch 4.

    ## References
    KIP-595, A Raft Protocol for the Metadata Quorum; QuorumState.initialize, QuorumState.durableTransitionTo; FileQuorumStateStore.
    """

    evidence = {"the voter's line with the epoch": "state_ref", "its line before, with a higher epoch": "higher_ref"}
    expected = "no epoch below {higher_epoch}, in which node {node} had been"
    observed = "node {node} states epoch {raft_epoch}"
    because = ("node {node} was in epoch {higher_epoch}", "its next line about its Raft state has epoch {raft_epoch}")

    def applies(self) -> Column:
        return col("state_ref").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        falls = col("higher_epoch").isNotNull()
        return first_of(
            passed(~falls, expected="no epoch below one in which node {node} had been", because=()),
            passed(
                col("raft_epoch") == 0,
                expected="no epoch below {higher_epoch}, unless the metadata directory of node {node} was emptied",
            ),
            maybe_formatted_anew(falls),
            otherwise=violation(),
        )
