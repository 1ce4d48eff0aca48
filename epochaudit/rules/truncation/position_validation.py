"""What the rules about a consumer's position have in common: whether the client could validate it (KIP-320)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.kafka.api_versions import LEADER_EPOCH_FETCH_VERSION
from epochaudit.kafka.releases import release
from epochaudit.rules.reasons import SHARED_CLIENT_ID
from epochaudit.rules.rule import CRITICAL, Branch, OwnSentences, exposed, unverifiable, violation

# Consumers validate with OffsetForLeaderEpoch 3, which brokers have since 2.3.
FIRST_VALIDATING_BROKER: Final = release("2.3")
JAVA: Final = "apache-kafka-java"
RESET: Final = "the client may have this position from ListOffsets: it then has no leader epoch to validate it with"
RETURNED_BY_LIST_OFFSETS: Final = (
    "ListOffsets had returned {fetch_offset} to {client_id} before: clients do not validate a position that was reset"
)
SOUGHT: Final = (
    "the client may have gone back to this position by a seek: it then has no leader epoch to validate it with"
)
READ_ON: Final = (
    "in leader epoch {read_on_in} {client_id} had fetched records from {fetch_offset} on, or above it, and came back"
)
REQUESTS_MISSING: Final = (
    "whether the client noticed before is not in the evidence: a leader's requests are missing (request log)"
)


def nothing_is_below() -> Column:
    """The position is offset 0: no record is before it that a truncation can have removed, and no leader epoch starts below it."""
    return col("fetch_offset") == 0


def can_validate() -> Column:
    """The client states a leader epoch in its fetch, and no release of the broker is known that could not answer it."""
    return (
        (col("api_version") >= LEADER_EPOCH_FETCH_VERSION)
        & (col("current_leader_epoch") >= 0)
        & (col("kafka_version").isNull() | (col("kafka_version") >= FIRST_VALIDATING_BROKER))
    )


def crossing(
    could_validate: Column,
    no_fence: str,
    because: tuple[str, ...],
    of_crossed: OwnSentences | None = None,
    of_uncertain: OwnSentences | None = None,
) -> tuple[Branch, ...]:
    """The verdicts on a position that may lie beyond a truncation that the client did not notice; `no_fence`: why it could not validate it.

    because: the first sentences on a position that may have no leader epoch. of_crossed: those of a truncation that the client may have
    noticed. of_uncertain: those of one that may not have happened. None: the rule's own.
    """
    crossed, of_crossed, of_uncertain = col("crossed"), of_crossed or {}, of_uncertain or {}
    return (
        unverifiable(crossed & col("shared_client_id"), SHARED_CLIENT_ID, **of_crossed),
        unverifiable(crossed & col("requests_missing"), REQUESTS_MISSING, **of_crossed),
        exposed(crossed & could_validate & col("may_be_reset"), RESET, because=(*because, RETURNED_BY_LIST_OFFSETS)),
        exposed(crossed & could_validate & col("read_on_in").isNotNull(), SOUGHT, because=(*because, READ_ON)),
        violation(crossed & could_validate),
        exposed(crossed, no_fence),
        unverifiable(
            col("crossing_uncertain"),
            "a later election, unclean or of an unknown kind, may have undone the truncation",
            **of_uncertain,
        ),
        unverifiable(col("epochs_missing"), "the start of a leader epoch in between is not recorded", **of_uncertain),
    )


def severity_of_crossing() -> Column:
    """Critical where the election that truncated was not unclean; null, that of the rule, where it was."""
    return F.when(col("crossed_election") != "unclean", CRITICAL)
