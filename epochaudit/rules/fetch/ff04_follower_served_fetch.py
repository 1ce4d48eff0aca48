"""FF-04."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.kafka.api_versions import FOLLOWER_FETCH_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import CONSUMER_REPLICA_ID
from epochaudit.kafka.releases import release
from epochaudit.rules.leader_epoch_fence import DELETED, EPOCH_LINE_MISSING, HAD_DELETED
from epochaudit.rules.reasons import BROKER_VERSION_UNKNOWN, EPOCH_CHANGED_JUST_BEFORE, LEADING_UNKNOWN
from epochaudit.rules.rule import MEDIUM, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

FIRST_SERVING_FOLLOWERS: Final = release("2.4")

ASKED: Final = "{client_id} fetched as replica {replica_id} with Fetch {api_version} and was answered {error_code}"
_LED = "broker {node} led {topic}-{partition} in leader epoch {leader_epoch}"
_CHANGING = ("about that time broker {node} began leader epoch {held_max} of {topic}-{partition}", ASKED)
_IF_IT_FOLLOWS = "error {NOT_LEADER_OR_FOLLOWER}, if the broker does not lead"


@rule("FF-04", frame="fetches", kip="KIP-320", severity=MEDIUM, since="0.8")
class FollowerServedFetch(Rule):
    """A replica that does not lead served a follower or a plain consumer.

    ## What it checks
    Followers, consumers below Fetch 11, and consumers of brokers before 2.4, may read from the leader only. Another replica
    must answer 6 (NOT_LEADER_OR_FOLLOWER), whatever leader epoch the request states.

    ## Why it matters
    A follower that copies from a follower may copy records that the leader never had, and the leader does not see its
    progress. A consumer that does not support reading from followers takes the follower's high watermark for the leader's.

    ## Evidence needed
    The broker's request log and its "starts at leader epoch" lines, which followers also write since 2.6. The broker's
    version, if a follower served a consumer's Fetch 11: 2.3 knows that version, but not reading from followers.

    ## What is allowed
    Consumers with Fetch 11 and later may read from any replica since 2.4 (KIP-392). Debugging consumers (replica -2) are
    not judged: before 2.4 they may read from any replica, since then below Fetch 11 from the leader only. A
    leader may answer 6 for other reasons. While leadership changes, either role may answer. A request that states the newer
    leader epoch and is served was answered in the newer role. Request lines may be written late, so the role that ended
    just before is allowed, too. A broker that has deleted its replica may refuse all, also those that wait. What is served
    between that and the replica's next recorded creation is unverifiable; after a StopReplica SR-06 judges it.

    ## What to do
    Check in `epochaudit timeline TOPIC-PARTITION` whether the broker took itself for the leader at the time. Restart a
    follower that copied from it: it then fetches from the leader, and truncates what the leader does not have. Audit
    the segments of both afterwards (EP-07). A consumer may read from followers with Fetch 11 only: upgrade an older one
    that does.

    ## Example
    Broker 3 follows broker 1 for orders-0. Broker 2 fetches orders-0 from broker 3 and gets records.

    ## References
    Partition.getLocalLog, FetchParams.fetchOnlyLeader; KIP-392.
    """

    evidence = {
        "the Fetch request and its answer": "fetch_ref",
        "the line that starts the leader epoch the broker held": "held_ref",
    }
    expected = "error {NOT_LEADER_OR_FOLLOWER}, as the broker followed"
    observed = "error {error_code} in Fetch {api_version} of replica {replica_id}"
    because = ("broker {node} held leader epoch {leader_epoch} of {topic}-{partition} as a follower", ASKED)

    def applies(self) -> Column:
        return col("error_code").isin(Errors.NONE, Errors.NOT_LEADER_OR_FOLLOWER) & (
            col("replica_id") >= CONSUMER_REPLICA_ID
        )

    def verdict(self) -> tuple[Branch, ...]:
        leads = col("held_leader") & col("leader_epoch").isNotNull()
        refused = col("error_code") == Errors.NOT_LEADER_OR_FOLLOWER
        supporting = (col("replica_id") == CONSUMER_REPLICA_ID) & (col("api_version") >= FOLLOWER_FETCH_VERSION)
        anywhere = supporting & (
            (col("api_version") > FOLLOWER_FETCH_VERSION) | (col("kafka_version") >= FIRST_SERVING_FOLLOWERS)
        )
        return first_of(
            # not fenced, as no role was compared: a fetcher of a deleted replica may ask a thousand times a second
            passed(refused & col("was_deleted"), expected=_IF_IT_FOLLOWS, because=(HAD_DELETED, ASKED)),
            unverifiable(col("was_deleted"), DELETED, expected=_IF_IT_FOLLOWS, because=(HAD_DELETED, ASKED)),
            *_refused(leads),
            passed(
                anywhere,
                expected="an answer, by the leader or a follower: a consumer with Fetch {api_version} may read from any replica",
                because=(ASKED,),
            ),
            passed(
                leads,
                expected="an answer, as the broker led",
                because=(_LED, ASKED),
            ),
            unverifiable(
                ~col("held_complete") & col("leader_epoch").isNull(),
                LEADING_UNKNOWN,
                expected=_IF_IT_FOLLOWS,
                because=_CHANGING,
            ),
            unverifiable(
                col("leader_epoch").isNull(),
                "the leadership changed while the request was worked on",
                expected=_IF_IT_FOLLOWS,
                because=_CHANGING,
            ),
            unverifiable(col("held_just_before") < col("held_min"), EPOCH_CHANGED_JUST_BEFORE, expected=_IF_IT_FOLLOWS),
            unverifiable(
                col("led_just_before"),
                "the broker led in the same epoch just before, perhaps another topic of the name",
                expected=_IF_IT_FOLLOWS,
                because=(ASKED,),
            ),
            unverifiable(col("epoch_line_missing"), EPOCH_LINE_MISSING, expected=_IF_IT_FOLLOWS),
            unverifiable(
                supporting & col("kafka_version").isNull(),
                BROKER_VERSION_UNKNOWN,
                expected="error {NOT_LEADER_OR_FOLLOWER}, if the broker does not support reading from followers",
            ),
            otherwise=violation(),
        )


def _refused(leads: Column) -> tuple[Branch, ...]:
    """The branches for an answer that the broker does not lead."""
    refused = col("error_code") == Errors.NOT_LEADER_OR_FOLLOWER
    follows = ~col("held_leader") & ~col("leads_in_highest") & col("leader_epoch").isNotNull()
    return (
        fenced(refused & follows),
        fenced(
            refused & ~leads,
            expected=_IF_IT_FOLLOWS,
            because=(*_CHANGING, "by its answer, it did not lead when the request came"),
        ),
        passed(
            refused & col("deleting"),
            expected="an answer, or error {NOT_LEADER_OR_FOLLOWER} once the broker has deleted its replica",
            because=(_LED, "about that time it deleted its replica", ASKED),
        ),
        passed(
            refused,
            expected="an answer, or error {NOT_LEADER_OR_FOLLOWER}, which a leader gives for reasons of its own",
            because=(_LED, ASKED),
        ),
    )
