"""FF-05."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import col, lit

from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation

LISTED: Final = (
    "{client_id} listed {topic}-{partition} in requests {listed_from} to {listed_until} of session {session_id}"
)
FORGOTTEN: Final = "it took the partition out of the session in request {forgotten_at}"
ANSWERED: Final = "broker {node} answered for it in requests {answered_from} to {answered_until} that did not list it"


@rule("FF-05", frame="fetch_sessions", kip="KIP-320", severity=HIGH, since="1.1")
class AnswerOutsideFetchSession(Rule):
    """A fetch session answered for a partition that it did not hold.

    ## What it checks
    An incremental Fetch lists only partitions that change. For the others the broker uses the offset, leader epoch and last
    fetched epoch of the session's earlier requests. If a session's responses contain a partition that their requests did
    not list, an earlier request of the session must have listed it, and no later request, up to the one that is answered, may
    have forgotten it.

    ## Why it matters
    The broker reads the partition at an offset, and fences it by a leader epoch, that the client never stated in this
    session. FF-01, FF-02 and the rules about positions rely on the session's parameters.

    ## Evidence needed
    The broker's request log with all requests of the session, including its first.

    ## What is allowed
    A broker that has lost a session answers 70 or 71 to the whole request, and the client begins a new session. A forgotten
    partition may be listed again; an answer for it before that may be missed. FF-01 and FF-02 report that 2.1.0 to 2.4.1
    lose the leader epoch in sessions (KAFKA-9338).

    ## What to do
    Restart the client or follower of the session: it begins a new one. For a follower, compare its log with the
    leader's afterwards (segments of both, EP-07); for a consumer, check that it has no gap at the partition. First rule
    out that requests of the session are missing: `epochaudit doctor` shows what the capture lacks. Otherwise report the
    lines to the Kafka project.

    ## Example
    A follower removes orders-0 from its session in request 5. The response to request 9 nevertheless contains orders-0.

    ## References
    FetchSession.IncrementalFetchContext; KIP-227; KAFKA-9338.
    """

    evidence = {
        "the answer that lists the partition": "answer_ref",
        "the first such answer": "answered_from_ref",
        "the first request that lists the partition": "listed_from_ref",
        "the last request that lists the partition": "listed_until_ref",
        "the request that takes the partition out of the session": "forgotten_ref",
    }
    expected = "a partition that an earlier request of session {session_id} lists, and that is not forgotten since"
    observed = "answered in requests {answered_from} to {answered_until} of the session, which did not list it"
    because = (LISTED, FORGOTTEN, ANSWERED)

    def applies(self) -> Column:
        return lit(True)

    def verdict(self) -> tuple[Branch, ...]:
        never_listed = col("listed_from").isNull() | (col("listed_from") > col("answered_from"))
        forgotten = (col("forgotten_at") <= col("answered_until")) & (col("listed_until") < col("forgotten_at"))
        return first_of(
            unverifiable(never_listed & ~col("began"), "the fetch session began before the capture"),
            unverifiable(
                (never_listed | forgotten) & ~col("complete"), "requests of the fetch session are not recorded"
            ),
            violation(never_listed | forgotten),
            otherwise=passed(),
        )
