"""RA-08."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.reasons import log_incomplete
from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("RA-08", frame="voter_sets", kip="KIP-853", severity=CRITICAL, since="3.9")
class SeveralVotersChanged(Rule):
    """Two consecutive voter sets of the metadata quorum differ by more than one voter.

    ## What it checks
    Each KRaftVoters record of the metadata log, against the voters before, by the last such record or a later snapshot: at most one
    voter is added, and at most one is removed. A voter is a node id with the id of its directory.

    ## Why it matters
    Sets that differ by one voter have no two majorities without a common member. If they differ by more, a majority of the old
    set and one of the new set may each elect a leader and commit other metadata.

    ## Evidence needed
    The metadata log, as segments or as a dump that prints the voters, and the snapshot from which it goes on.

    ## What is allowed
    The first record: the voters before come from the configuration, or from the snapshot with which the disks were formatted.
    A node that gets another directory is one voter removed and one added. Endpoints may change. If a part of the log is missing in
    between, the two need not be consecutive, which is unverifiable.

    ## What to do
    Compare the copies of the metadata log of all controllers (EP-06), and look for two leaders of the quorum (RA-02, RA-07). Stop
    controllers that follow another leader than the majority of the new set. Add and remove voters by
    `kafka-metadata-quorum.sh` only, one after the other. Report the records to the Kafka project, which only logs such a change.

    ## Example
    The record at offset 80 has the voters 1, 2 and 3, the next one, at offset 90, has 3, 4 and 5.

    ## References
    KIP-853, Reconfiguration; VoterSet.hasOverlappingMajority; VoterSetHistory.addAt; AddVoterHandler; RemoveVoterHandler.
    """

    evidence = {"the record": "record_ref", "the record before, or that of a snapshot": "earlier_ref"}
    expected = "at most one voter added, and at most one removed"
    observed = "voters added: {added}, removed: {removed}"
    because = (
        "the voters as of offset {earlier_offset} are {earlier_voters}",
        "the next record about voters, at offset {metadata_offset}, has {voters}",
    )

    def applies(self) -> Column:
        return ~col("first")

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(
                col("voters").isNull() | col("earlier_voters").isNull(),
                "the dump does not print the voters (metadata log)",
                observed="another set of voters",
                because=(),
            ),
            log_incomplete(because=(self.because[0], "a later one, at offset {metadata_offset}, has {voters}")),
            passed((F.size("added") <= 1) & (F.size("removed") <= 1)),
            otherwise=violation(),
        )
