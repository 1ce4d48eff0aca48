"""RA-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.metadata_quorum.formatted_anew import maybe_formatted_anew
from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("RA-03", frame="quorum_votes", kip="KIP-595", severity=CRITICAL, since="2.8")
class VoterVotedTwice(Rule):
    """A voter of the metadata quorum gave its vote to two candidates in one epoch.

    ## What it checks
    The votes of each voter in each epoch: Vote requests that it granted, and those that it sent, since a candidate votes for
    itself. All of them are for one candidate. Voters also log them: each answer to a Vote request, that they become a candidate, and
    with each state (QuorumState) whom they have voted for in its epoch.

    ## Why it matters
    One vote of each voter is what makes one leader of each epoch. With a second vote, two candidates may each have a majority
    (RA-02), and two controllers write metadata in one epoch.

    ## Evidence needed
    server.log or controller.log of the controllers ("Vote request … is granted", "Completed transition to …"), or their request logs
    in JSON. Neither has the votes of another voter.

    ## What is allowed
    Several requests of one candidate, and pre-votes (KIP-996), which promise nothing. A vote is on disk before it is answered, so
    a restart allows no other one. A voter whose disk was emptied or replaced between the votes forgets the first: that is
    reported, too, since nothing but dynamic voters (KIP-853) distinguishes it from its former self. If an answer is missing, or the quorum
    was formatted anew (RA-02), it is unverifiable. So it is if a disk was emptied and the voters without logs here may have lost theirs.

    ## What to do
    Look at the voter named: whether its metadata directory was emptied, restored from a snapshot, or is on a disk that loses
    writes, and whether two processes ran with its node id. Start a controller whose disk was replaced only while the other
    controllers have a leader; with kraft.version 1, remove the voter and add it again. RA-02 shows whether two leaders came of it.

    ## Example
    Controller 3 grants its vote to controller 1 in epoch 5, restarts with an empty disk, and grants it to controller 2 in epoch 5.

    ## References
    KIP-595, A Raft Protocol for the Metadata Quorum; KIP-853; KIP-996; KafkaRaftClient.handleVoteRequest; QuorumState, its states;
    KAFKA-16526.
    """

    evidence = {
        "the vote for the candidate": "vote_ref",
        "the vote for the other candidate": "other_ref",
        "the Vote request whose answer is missing": "unknown_ref",
    }
    expected = "one candidate with the vote of node {node} in epoch {raft_epoch}"
    observed = "candidates {candidate} and {other_candidate}"
    because = (
        "node {node} voted for {candidate} in epoch {raft_epoch}",
        "node {node} voted for {other_candidate} in epoch {raft_epoch}",
    )

    def applies(self) -> Column:
        return col("candidate").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            maybe_formatted_anew(col("other_candidate").isNotNull()),
            violation(col("other_candidate").isNotNull()),
            unverifiable(
                col("unknown_candidate").isNotNull(),
                "whether another candidate was given the vote is not in the evidence (request log)",
                observed="candidate {candidate}; the answer to candidate {unknown_candidate} is not recorded",
                because=self.because[:1],
            ),
            otherwise=passed(observed="candidate {candidate} alone", because=self.because[:1]),
        )
