"""Answers of leaders that each are wrong by themselves."""

from __future__ import annotations

from typing import Final

from tests.mutations.editing import Copy, NotThereError
from tests.mutations.fetching import ZOOKEEPER, replica_of
from tests.mutations.metadata_records import HEALTHY, INELIGIBLE
from tests.mutations.planting import Place, mutation

FENCED_LEADER_EPOCH: Final = 74
OFFSET_MOVED_TO_TIERED_STORAGE: Final = 109
_DELETE_RECORDS: Final = {"requestApiKey": 21, "requestApiVersion": 2, "requestApiKeyName": "DELETE_RECORDS"}


@mutation("LH-01", INELIGIBLE)
def refused_leader_hinted(copy: Copy) -> Place:
    """A broker refuses a leader epoch with 74, and names the leader of just this epoch."""
    for fetch in copy.requests("FETCH"):
        stated = {
            (topic["topicId"], partition["partition"]): partition["currentLeaderEpoch"]
            for topic in fetch.asked["topics"]
            for partition in topic["partitions"]
        }
        for topic in fetch.answered["responses"]:
            for answer in topic["partitions"]:
                epoch = stated.get((topic["topicId"], answer["partitionIndex"]), -1)
                if answer["errorCode"] == FENCED_LEADER_EPOCH and "currentLeader" in answer and epoch >= 0:
                    answer["currentLeader"]["leaderEpoch"] = epoch
                    fetch.write()
                    return Place(node=fetch.node, leader_epoch=epoch, correlation_id=fetch.correlation_id)
    raise NotThereError("no Fetch in a leader epoch that was refused with a hint")


@mutation("LS-02", ZOOKEEPER, fetches=False)
def deletion_confirmed_early(copy: Copy) -> Place:
    """A leader answers DeleteRecords with 0 although a follower has the records still."""
    produced = copy.request("PRODUCE", lambda r: r.answered["responses"] and "name" in r.answered["responses"][0])
    name = produced.answered["responses"][0]["name"]
    admin = copy.request("DELETE_TOPICS", lambda r: r.answered["responses"])
    admin.document["requestHeader"] = admin.header | _DELETE_RECORDS
    asked = {"name": name, "partitions": [{"partitionIndex": 0, "offset": 3}]}
    answered = {"name": name, "partitions": [{"partitionIndex": 0, "lowWatermark": 2, "errorCode": 0}]}
    admin.document["request"] = {"topics": [asked], "timeoutMs": 30000}
    admin.document["response"] = {"throttleTimeMs": 0, "topics": [answered]}
    admin.write_behind(produced)
    return Place(node=produced.node, topic=name, partition=0, client=admin.client)


@mutation("LS-04", HEALTHY)
def consumer_sent_to_tiered_storage(copy: Copy) -> Place:
    """A leader answers a consumer's Fetch with 109 in place of an error that the consumer knows."""
    for fetch in copy.requests("FETCH", lambda r: replica_of(r) < 0):
        for topic in fetch.answered["responses"]:
            for answer in topic["partitions"]:
                if answer["errorCode"] != 0:
                    answer["errorCode"] = OFFSET_MOVED_TO_TIERED_STORAGE
                    fetch.write()
                    return Place(
                        node=fetch.node, partition=answer["partitionIndex"], correlation_id=fetch.correlation_id
                    )
    raise NotThereError("no consumer that was answered an error")
