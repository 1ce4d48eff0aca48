"""FF-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("FF-05", frame="fetch_sessions", kip="KIP-320", severity=HIGH, since="1.1")
class AnswerOutsideFetchSession(Rule):
    """A fetch session answered for a partition that it did not hold.

    ## What it checks
    An incremental Fetch lists only what changes; for all other partitions the broker uses what the session's earlier
    requests said: offset, leader epoch, last fetched epoch. Each partition that answers of a session list, though
    their requests do not, must have been listed by an earlier request of the session, and not forgotten since.

    ## Why it matters
    Without parameters of its own the partition is read at an offset, and fenced by a leader epoch, that the client
    never stated in this session. FF-01, FF-02 and the rules about positions judge such rows by the session.

    ## Evidence needed
    The broker's request log with all requests of the session, from the one that began it.

    ## What is allowed
    A session that the broker has lost is answered 70 or 71 as a whole; the client then begins a new one. A partition
    that was forgotten may be listed again. That 2.1.0 to 2.4.1 lose the leader epoch in sessions (KAFKA-9338) is told
    by FF-01 and FF-02.

    ## Example
    A follower takes orders-0 out of its session in request 5; the answer to request 9 delivers orders-0 all the same.

    ## References
    FetchSession.IncrementalFetchContext; KIP-227; KAFKA-9338.
    """

    evidence = {"the answer that lists the partition": "answer_ref"}
    expected = "a partition that an earlier request of session {session_id} lists, and that is not forgotten since"
    observed = "answered in requests {answered_from} to {answered_until} of the session, listed in {listed_from} to {listed_until}"
    because = (
        "{client_id} listed {topic}-{partition} in requests {listed_from} to {listed_until} of session {session_id}",
        "it took the partition out of the session in request {forgotten_at}",
        "broker {node} answered for it in requests {answered_from} to {answered_until} that did not list it",
    )

    def applies(self) -> Column:
        return col("answered_from").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        never = col("listed_from").isNull() | (col("listed_from") > col("answered_from"))
        gone = (col("forgotten_at") < col("answered_until")) & (
            F.coalesce("listed_until", F.lit(-1)) < col("forgotten_at")
        )
        return first_of(
            unverifiable(never & ~col("began"), "the fetch session began before the capture"),
            unverifiable((never | gone) & ~col("complete"), "requests of the fetch session are not recorded"),
            violation(never | gone),
            otherwise=passed(),
        )
