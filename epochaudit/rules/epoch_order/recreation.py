"""States that may be of a topic created again."""

from __future__ import annotations

from pyspark.sql.functions import col

from epochaudit.rules.rule import Branch, unverifiable


def unproven_recreation() -> tuple[Branch, ...]:
    """The state may be of another topic of the name, and nothing recorded proves it.

    Needs starts_anew, deleted_before and maybe_another_topic of the frame `metadata`.
    """
    return (
        unverifiable(col("starts_anew"), "nothing proves that the topic was created again"),
        unverifiable(
            col("deleted_before"),
            "the topic was deleted in between, and the first state of a topic that was created again is not recorded",
        ),
        unverifiable(
            col("maybe_another_topic"),
            "the topic was created again, and no state-change.log of the controllers in between states it",
        ),
    )
