"""SH-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.replay.data_plane.share_sessions import NEXT, OUT_OF_ORDER, REFUSED
from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

_ASKED = (
    "{event_type} {correlation_id} of {client_id} has epoch {session_epoch} of the share session of member {member_id} of group "
    "{group_id}"
)
_BEFORE = (
    "the last request before it on the same connection that was not refused was accepted with epoch {previous_epoch}"
)
_CLOSED = "the last request before it on the same connection that was not refused closed the session"
_FOLLOWING = "the epoch after that of the request before"


@rule("SH-03", frame="share_sessions", kip="KIP-932", severity=HIGH, since="4.1")
class SessionEpochOutOfOrder(Rule):
    """A broker accepted an epoch of a share session twice, or out of order.

    ## What it checks
    A member of a share group opens a session with a partition's leader in epoch 0, and raises the epoch with each request. The leader must
    refuse any other than the next epoch with 123 (INVALID_SHARE_SESSION_EPOCH), and any epoch without a session with 122
    (SHARE_SESSION_NOT_FOUND). Judged are ShareFetch and ShareAcknowledge, which raise one epoch together.

    ## Why it matters
    The epoch shows the leader that it has handled a request before, or that a later one overtook it. A request that is
    handled twice acquires records that nobody processes until their lock runs out, and repeats acknowledgements that
    the member no longer intends.

    ## Evidence needed
    The leaders' request logs as JSON with ShareFetch and ShareAcknowledge: the light settings leave most of these out. For a violation,
    the request before it on the same connection, as the correlation ids show.

    ## What is allowed
    A session that is opened anew: its epochs begin with 1 again. After 2147483647 follows 1. Version 0 of the requests, the early access
    of 4.0, is not judged.

    ## What to do
    Look at the client named by its client id and `connection`: two instances with one member id, or a client that sends requests again
    by itself. Its records may have been processed twice. A real Kafka client with this finding shows a defect of the broker: report it,
    with both lines.

    ## Example
    A broker answers 0 to a ShareFetch with epoch 7. The client times out and sends epoch 7 again on the same connection: it is answered 0
    with further records, instead of 123.

    ## References
    SharePartitionManager.newContext and acknowledgeSessionUpdate; ShareRequestMetadata.nextEpoch; KIP-932.
    """

    evidence = {
        "the request and its answer": "request_ref",
        "the last request before it on the connection that was not refused": "previous_ref",
    }
    expected = "error {INVALID_SHARE_SESSION_EPOCH} or {SHARE_SESSION_NOT_FOUND}"
    observed = "the request with session epoch {session_epoch} was answered {error_code}"
    because = (_ASKED,)

    def applies(self) -> Column:
        return col("order").isNotNull() | col("error_code").isin(*REFUSED)

    def verdict(self) -> tuple[Branch, ...]:
        closed = col("previous_epoch") < 0
        out_of_order = col("order") == OUT_OF_ORDER
        return first_of(
            fenced(col("error_code").isin(*REFUSED), expected=f"{_FOLLOWING}, or one of these errors: {self.expected}"),
            violation(out_of_order & closed, because=(_ASKED, _CLOSED)),
            violation(out_of_order, because=(_ASKED, _BEFORE)),
            passed(
                col("order") == NEXT,
                expected=_FOLLOWING,
                observed="{requests} requests of the connection were accepted, each with the epoch after the one before",
                because=("the first of them: " + _ASKED,),
            ),
            otherwise=unverifiable(
                None,
                "the member's request before it on the same connection is not in the evidence, or has no answer with an epoch",
                expected=_FOLLOWING,
            ),
        )
