"""CO-06."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, exposed, first_of, passed, rule, unverifiable


@rule("CO-06", frame="commits", kip="KIP-516", severity=HIGH, since="all")
class DeletedTopicsOffsetResumed(Rule):
    """A group was told an offset that it had committed for a deleted topic of the same name.

    ## What it checks
    What a coordinator answers to OffsetFetch for a topic whose name stood for another topic before. The offset must have been
    committed after the present topic was created; a coordinator drops a group's offsets when it learns that their topic is
    deleted.

    ## Why it matters
    Offsets and leader epochs of the new topic start at 0. The group skips what the new topic holds before the offset, and no
    leader epoch can tell.

    ## Evidence needed
    The coordinator's request log with the commit and the answer, and its own words of both topics' ids: control requests,
    "starts at leader epoch" lines, Metadata 10 or later. Before 2.8: all deletions and creations of the name.

    ## What is allowed
    No offset (-1), and an offset that was committed since. A commit between the coordinator's last word of the old topic and its
    first of the new one may be of either; so may one at another coordinator.

    ## Example
    Group g committed 20 of orders. orders is deleted and created again; the coordinator, which missed the deletion, still tells
    the group 20.

    ## References
    GroupCoordinator.handleDeletedPartitions, GroupCoordinatorService.onPartitionsDeleted; KIP-516, Motivation.
    """

    evidence = {
        "the answer to OffsetFetch": "told_ref",
        "the commit of the offset": "commit_ref",
        "the topic created again, as the coordinator was told": "created_ref",
    }
    expected = "no committed offset (-1) for {topic}-{partition} of topic id {topic_id}"
    observed = "broker {node} told group {group_id} offset {committed_offset}, leader epoch {leader_epoch}"
    because = (
        "the group had committed {committed_offset} while {topic} was another topic",
        "the topic was deleted and created again with topic id {topic_id} before the answer",
        "no commit of the offset is recorded since",
    )

    def applies(self) -> Column:
        return col("told")

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(
                ~col("created_before"),
                "the coordinator's word of two topics of the name before the answer is not recorded",
            ),
            unverifiable(col("commit_ref").isNull(), "the commit of the offset is not recorded"),
            passed(col("after_creation")),
            unverifiable(col("committed_elsewhere"), "the offset was committed at another coordinator, too"),
            exposed(col("before_deletion"), "committed offsets are bound to a topic's name"),
            otherwise=unverifiable(
                None, "whether the offset was committed before or after the topic was created again"
            ),
        )
