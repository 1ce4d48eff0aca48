"""CO-06."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, exposed, first_of, passed, rule, unverifiable, violation


@rule("CO-06", frame="commits", kip="KIP-516", severity=HIGH, since="all")
class DeletedTopicsOffsetResumed(Rule):
    """A coordinator returned an offset that the group had committed for a deleted topic of the same name.

    ## What it checks
    OffsetFetch responses of a coordinator for a topic whose name belonged to another topic before. The offset must have
    been committed after the present topic was created, because a coordinator drops a group's offsets when it learns that
    their topic is deleted. If commit and OffsetFetch both state the topic's id (OffsetCommit 10 and OffsetFetch 10, from 4.2 on), the
    coordinator must compare them: no offset of another topic is returned.

    ## Why it matters
    Offsets and leader epochs of the new topic start at 0. The group skips the records of the new topic before the offset,
    and no leader epoch shows it.

    ## Evidence needed
    The coordinator's request log with the commit and the response, and its own statements of both topics' ids: control
    requests, "starts at leader epoch" lines, Metadata 10 or later. Before 2.8: all deletions and creations of the name. For a
    violation, the elections of __consumer_offsets: the metadata log or state-change.log.

    ## What is allowed
    No offset (-1), and an offset that was committed since, or with the id of the present topic. A commit by name between the
    coordinator's last statement of the old topic and its first of the new one may belong to either, and so may a commit at another
    coordinator. Where files of the request log are missing between commit and answer, the group may have committed the offset again. An
    offset that is committed or fetched by name is bound to the name only: it is exposed. If the offset was also committed by name, or
    may have been at another coordinator, topic ids prove nothing.

    ## What to do
    Stop the group and reset it for the new topic: `kafka-consumer-groups.sh --reset-offsets --to-earliest`. The coordinator missed
    the deletion: look in its server.log for why. Before a topic is created again, remove the groups' offsets with
    `kafka-consumer-groups.sh --delete-offsets`, or use a new name. Consumers of the protocol of KIP-848 commit and fetch with the
    topic's id from 4.2 on.

    ## Example
    Group g committed 20 of orders. orders is deleted and re-created. The coordinator, which missed the deletion, still
    returns 20 to the group.

    ## References
    GroupCoordinator.handleDeletedPartitions, GroupCoordinatorService.onPartitionsDeleted, OffsetMetadataManager.fetchOffsets; KIP-516,
    Motivation; KIP-848.
    """

    evidence = {
        "the answer to OffsetFetch": "offset_fetch_ref",
        "the commit of the offset": "commit_ref",
        "the coordinator's last line about the topic before": "last_stated_ref",
        "the coordinator's first line about the topic created again": "created_ref",
    }
    expected = "no committed offset of {topic}-{partition}: the group has committed none in {topic_now}"
    observed = "broker {node} returned committed offset {committed_offset} to group {group_id}"
    because = (
        "group {group_id} had committed {committed_offset} of {topic}-{partition} before {topic} was deleted",
        "{topic} was created again before the answer: it is {topic_now}",
        "no commit of the offset is recorded between then and the answer",
    )

    def applies(self) -> Column:
        return col("returned")

    def verdict(self) -> tuple[Branch, ...]:
        since = "an offset of {topic}-{partition} that the group committed since {topic} was created again"
        created = self.because[1]

        def unsettled(condition: Column | None, reason: str) -> Branch:
            return unverifiable(condition, reason, expected=since, because=())

        return first_of(
            violation(
                col("of_another_topic")
                & col("coordinated_throughout")
                & ~col("committed_elsewhere")
                & ~col("commits_missing"),
                expected="no committed offset of {topic}-{partition}: the request states topic id {fetched_topic_id}",
                because=(
                    "group {group_id} had committed {committed_offset} of {topic}-{partition} with topic id {committed_topic_id}",
                    "each recorded commit of the offset before states that topic id",
                ),
            ),
            passed(
                col("committed_topic_id") == col("fetched_topic_id"),
                expected="an offset of {topic}-{partition} that the group committed with topic id {fetched_topic_id}",
                because=("the last commit of the offset before states that topic id",),
            ),
            unsettled(
                ~col("created_before"),
                "no statement of the coordinator about two topics of the name is recorded before the answer",
            ),
            unsettled(col("commit_ref").isNull(), "the commit of the offset is not recorded"),
            passed(
                col("after_creation"),
                expected=since,
                because=(created, "a commit of the offset is recorded since"),
            ),
            unsettled(col("committed_elsewhere"), "the offset was committed at another coordinator, too"),
            unsettled(
                col("commits_missing"), "a part of the coordinator's request log is missing between commit and answer"
            ),
            unsettled(
                col("committed_topic_id") != col("fetched_topic_id"),
                "another commit of the offset may have come in between, or one was by topic name",
            ),
            exposed(
                col("before_deletion"), "an offset that is committed or fetched by topic name is bound to the name only"
            ),
            otherwise=unsettled(None, "whether the offset was committed before or after the topic was created again"),
        )
