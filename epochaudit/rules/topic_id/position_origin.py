"""What the rules about a consumer's first fetch in a topic that was created again have in common: where its position came from."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

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
    """The arms of a verdict on a position that a client has in a new topic of the name.

    first, nameless: what was observed of the first fetch (without its offset, which follows if it is known), and of one in a
    topic that nothing distinguishes from others. fence: why no
    version of the protocol, or not the one in use, refuses a position of the old topic. at_start: the reasons of a fetch at the
    start of the log, if not the rule's. refused: the arm of clients that were refused before. resumed: the client may have been
    answered the offset of its group.
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
    of_group = "whether the consumer was told its group's offset before is not in the evidence"
    return first_of(
        unsettled(col("topic_id").isNull(), "nothing tells the topics of the name apart", nameless),
        unsettled(col("order_unknown") & no_offset, order_unknown, first),
        unsettled(col("order_unknown"), order_unknown),
        *([] if refused is None else [refused]),
        passed(no_offset & col("detected").isNotNull(), expected=own, observed=first, because=got),
        unsettled(no_offset, not_recorded, first),
        passed(col("fetch_offset") <= col("log_start_offset"), **started),
        passed(
            col("detected").isNotNull(),
            expected=own,
            observed=at_offset,
            because=got,
        ),
        unsettled(
            col("leader_epoch") > 0, "a broker that led the new topic before may have given the consumer its position"
        ),
        unsettled(col("shared_client_id"), "several consumers share the client id"),
        *([] if resumed is None else [unsettled(resumed, of_group)]),
        exposed(col("position_ref").isNotNull(), fence),
        otherwise=unsettled(None, not_recorded),
    )
