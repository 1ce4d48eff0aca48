"""RA-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.kafka.errors import Errors
from epochaudit.rules.rule import CRITICAL, LOW, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


@rule("RA-01", frame="quorum_answers", kip="KIP-595", severity=CRITICAL, since="2.8")
class WrongQuorumEpochAnswered(Rule):
    """A node of the metadata quorum served a request of an epoch other than its own, or fenced one of its own.

    ## What it checks
    Each Vote, BeginQuorumEpoch, EndQuorumEpoch, FetchSnapshot and Fetch of the metadata log. The answer states the
    responder's epoch. With code 0 it is that of the request: an older epoch is refused, and a node first takes over a newer one.
    Code 74 (FENCED_LEADER_EPOCH) goes to requests of a lower epoch only, code 75 (UNKNOWN_LEADER_EPOCH) to those of a higher one.

    ## Why it matters
    The epoch keeps a replaced leader of the quorum from having its records accepted. Where an old epoch is served, two
    controllers may both believe that their metadata is committed. A refusal of the right epoch only delays.

    ## Evidence needed
    Request logs of the controllers, in JSON. One line suffices.

    ## What is allowed
    Other codes than these. A Fetch may wait for records, and up to 3.3 at least another thread answers if the wait ends: the
    epoch may change in between, so a newer one in the answer to a Fetch that waited is unverifiable.

    ## What to do
    Find out who leads: `kafka-metadata-quorum.sh describe --status` on each controller. Two that each name themselves are two
    quorums: stop the one with the lower epoch. Then compare the copies of the metadata log (EP-06) before you start it again. Make
    sure that all controllers run one release. A wrong refusal, whose severity is low, needs no action; report it to
    Kafka.

    ## Example
    Controller 3 knows epoch 7. BeginQuorumEpoch of epoch 6 arrives late, and controller 3 answers 0, with epoch 7.

    ## References
    KIP-595, A Raft Protocol for the Metadata Quorum; KafkaRaftClient.validateVoterOnlyRequest, validateLeaderOnlyRequest,
    handleVoteRequest, handleBeginQuorumEpochRequest, handleEndQuorumEpochRequest, tryCompleteFetchRequest.
    """

    evidence = {"the request": "request_ref"}
    expected = "{NONE} only for epoch {answered}"
    observed = "{api} of epoch {asked} was answered {NONE}"
    because = ("the responder knew epoch {answered} after the request",)

    def applies(self) -> Column:
        unknown = (col("error_code") == Errors.UNKNOWN_LEADER_EPOCH) & col("asks_leader")
        judged = col("error_code").isin(Errors.NONE, Errors.FENCED_LEADER_EPOCH) | unknown
        not_refused = F.coalesce(col("request_error_code"), F.lit(Errors.NONE)) == Errors.NONE
        return col("asked").isNotNull() & F.coalesce(judged, not_refused)

    def verdict(self) -> tuple[Branch, ...]:
        served = col("error_code") == Errors.NONE
        below = col("error_code") == Errors.FENCED_LEADER_EPOCH
        asked, answered = col("asked"), col("answered")
        return first_of(
            unverifiable(
                col("error_code").isNull() | answered.isNull(),
                "the answer, or the epoch in it, is not in the evidence (request log)",
                expected="{NONE} only for the responder's own epoch",
                observed="{api} of epoch {asked}",
                because=(),
            ),
            passed(served & (asked == answered)),
            unverifiable(
                served & (answered > asked) & col("parked"),
                "the Fetch waited, and the epoch may have changed just then",
                observed="{api} of epoch {asked} was answered {NONE} after a wait",
            ),
            violation(
                served & (answered > asked),
                because=(*self.because, "a request of a lower epoch has to be refused with {FENCED_LEADER_EPOCH}"),
            ),
            violation(
                served,
                because=(*self.because, "a node takes over a higher epoch, or refuses it, before it answers"),
            ),
            fenced(
                below & (answered > asked),
                expected="{FENCED_LEADER_EPOCH} for an epoch below {answered}",
                observed="{api} of epoch {asked} was refused with {FENCED_LEADER_EPOCH}",
            ),
            fenced(
                ~below & (answered < asked),
                expected="{UNKNOWN_LEADER_EPOCH} for an epoch above {answered}",
                observed="{api} of epoch {asked} was refused with {UNKNOWN_LEADER_EPOCH}",
            ),
            violation(
                below,
                expected="{FENCED_LEADER_EPOCH} only for an epoch below {answered}",
                observed="{api} of epoch {asked} was refused with {FENCED_LEADER_EPOCH}",
            ),
            otherwise=violation(
                expected="{UNKNOWN_LEADER_EPOCH} only for an epoch above {answered}",
                observed="{api} of epoch {asked} was refused with {UNKNOWN_LEADER_EPOCH}",
            ),
        )

    def severity_of(self) -> Column:
        return F.when(col("error_code") != Errors.NONE, F.lit(LOW))
