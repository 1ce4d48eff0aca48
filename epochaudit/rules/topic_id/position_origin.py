"""What the rules about a consumer's first fetch in a topic that was created again have in common: where its position came from."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.reasons import SHARED_CLIENT_ID
from epochaudit.rules.rule import Branch, OwnSentences, exposed, first_of, passed, unverifiable


def origin(
    first: str,
    nameless: str,
    fence: str,
    *,
    at_start: tuple[str, ...] | None = None,
    refused: Branch | None = None,
    resumed: Column | None = None,
) -> tuple[Branch, ...]:
    """The branches for a consumer's first fetch in a topic that was created again under the same name.

    first: `observed` of that fetch; its offset is appended if known. nameless: `observed` if nothing distinguishes the
    topics of the name. fence: why the protocol version in use, or any version, does not refuse a position in the old
    topic. at_start: `because` of a fetch at the start of the log; None: the rule's own. refused: the branch of clients
    that were refused before. resumed: true if the coordinator may have returned the group's offset to the client.
    """
    own = "a position that {client_id} got in the topic that it fetches from"
    at_offset = f"{first} at offset {{fetch_offset}}"
    no_offset = col("fetch_offset").isNull()
    got = ("{client_id} had got {detected} there",)
    not_recorded = "where the position came from is not in the evidence"

    def unsettled(condition: Column | None, reason: str, observed: str = at_offset) -> Branch:
        return unverifiable(condition, reason, expected=own, observed=observed, because=())

    started: OwnSentences = {
        "expected": "a fetch at the start of the new log, {log_start_offset}, or a position from it",
        "observed": at_offset,
    }
    if at_start is not None:
        started["because"] = at_start
    order_unknown = "which of the name's topic ids came first is not in the evidence"
    of_group = "whether the consumer had got its group's offset before is not in the evidence"
    return first_of(
        unsettled(col("topic_id").isNull(), "nothing distinguishes the topics of the name", nameless),
        unsettled(col("order_unknown") & no_offset, order_unknown, first),
        unsettled(col("order_unknown"), order_unknown),
        *([] if refused is None else [refused]),
        passed(no_offset & col("detected").isNotNull(), expected=own, observed=first, because=got),
        unsettled(no_offset, not_recorded, first),
        passed(col("fetch_offset") <= col("log_start_offset"), **started),
        passed(col("detected").isNotNull(), expected=own, observed=at_offset, because=got),
        unsettled(
            col("leader_epoch") > 0, "a broker that led the new topic before may have given the consumer its position"
        ),
        unsettled(col("shared_client_id"), SHARED_CLIENT_ID),
        *([] if resumed is None else [unsettled(resumed, of_group)]),
        unsettled(
            col("position_ref").isNotNull() & col("requests_missing"),
            "requests to the broker that served the new topic are missing, perhaps one that gave the consumer its position (request log)",
        ),
        exposed(col("position_ref").isNotNull(), fence),
        otherwise=unsettled(None, not_recorded),
    )
