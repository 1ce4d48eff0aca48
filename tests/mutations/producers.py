"""Producer ids, producer epochs and transactions."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from tests.mutations.editing import Copy, NotThereError, Request
from tests.mutations.planting import Place, mutation

INIT: Final = "INIT_PRODUCER_ID"
BLOCK: Final = "ALLOCATE_PRODUCER_IDS"
HEALTHY: Final = "kraft-k1-healthy"


@mutation("PE-03", HEALTHY, fetches=False)
def producer_id_given_twice(copy: Copy) -> Place:
    """A coordinator gives an idempotent producer the id that another one has."""
    first, *_, last = sorted(
        copy.requests(INIT, lambda r: r.answered["errorCode"] == 0), key=lambda r: (r.answered_at, r.node)
    )
    last.answered["producerId"] = first.answered["producerId"]
    last.write()
    return Place(node=last.node, client=last.client, correlation_id=last.correlation_id)


@mutation("PE-03", HEALTHY, fetches=False)
def block_of_producer_ids_given_twice(copy: Copy) -> Place:
    """A controller answers two brokers with one block of producer ids."""
    first, *_, last = sorted(
        copy.requests(BLOCK, lambda r: r.answered["errorCode"] == 0), key=lambda r: (r.answered_at, r.correlation_id)
    )
    last.answered["producerIdStart"] = first.answered["producerIdStart"]
    last.write()
    return Place(node=last.node, correlation_id=last.correlation_id)


TRANSACTIONS: Final = "kraft-transactions-4.1"
END: Final = "END_TXN"
ADD: Final = "ADD_PARTITIONS_TO_TXN"
FENCED: Final = 90


@mutation("PE-01", TRANSACTIONS, fetches=False)
def zombie_commits(copy: Copy) -> Place:
    """A coordinator answers 0 to the EndTxn of a producer that another one had replaced, in place of 90."""
    refused = copy.request(END, lambda r: r.answered["errorCode"] == FENCED and r.client.startswith("bill"))
    refused.answered["errorCode"] = 0
    refused.write()
    return Place(node=refused.node, client=refused.client, correlation_id=refused.correlation_id)


@mutation("PE-01", TRANSACTIONS, fetches=False)
def zombie_adds_a_partition(copy: Copy) -> Place:
    """A coordinator adds a partition to the transaction of a producer that another one had replaced."""
    for request in copy.requests(ADD, lambda r: "resultsByTopicV3AndBelow" in r.answered):
        for topic in request.answered["resultsByTopicV3AndBelow"]:
            for partition in topic["resultsByPartition"]:
                if partition["partitionErrorCode"] == FENCED:
                    partition["partitionErrorCode"] = 0
                    request.write()
                    return Place(
                        node=request.node,
                        topic=topic["name"],
                        partition=partition["partitionIndex"],
                        client=request.client,
                    )
    raise NotThereError("no producer whose partitions were refused")


@mutation("PE-02", TRANSACTIONS, fetches=False)
def producer_epoch_given_twice(copy: Copy) -> Place:
    """A coordinator gives a starting producer the epoch that it gave to the one before."""
    given: dict[str, Request] = {}
    for request in copy.requests(INIT, lambda r: r.answered["errorCode"] == 0):
        first = given.setdefault(request.asked["transactionalId"], request)
        if first is not request:
            request.answered["producerEpoch"] = first.answered["producerEpoch"]
            request.write()
            return Place(node=request.node, client=request.client, correlation_id=request.correlation_id)
    raise NotThereError("no transactional id that was given two epochs")


MARKERS: Final = "WRITE_TXN_MARKERS"


def _marker_behind_another(copy: Copy) -> Request:
    """A marker of the partition and producer id of another one, over a second behind it at the same leader."""
    marked: dict[tuple[object, ...], list[Request]] = defaultdict(list)
    for request in copy.requests(MARKERS):
        [marker, *more] = request.asked["markers"]
        [topic, *others] = marker["topics"]
        if more or others or len(topic["partitionIndexes"]) > 1:
            continue
        key = (request.node, marker["producerId"], topic["name"], *topic["partitionIndexes"])
        for earlier in marked[key]:
            if request.answered_ms - earlier.answered_ms > 3_000:
                return request
        marked[key].append(request)
    raise NotThereError("no two markers of a producer id over three seconds apart")


@mutation("PE-04", TRANSACTIONS, fetches=False)
def marker_of_replaced_coordinator_accepted(copy: Copy) -> Place:
    """The leader of a partition accepts the marker of a coordinator epoch below that of the marker before."""
    return _made_older(copy, "coordinatorEpoch")


@mutation("PE-04", TRANSACTIONS, fetches=False)
def marker_of_replaced_producer_accepted(copy: Copy) -> Place:
    """The leader of a partition accepts a marker of a producer epoch below that of the marker before."""
    return _made_older(copy, "producerEpoch")


def _made_older(copy: Copy, epoch: str) -> Place:
    request = _marker_behind_another(copy)
    [marker] = request.asked["markers"]
    marker[epoch] = -1
    request.write()
    [topic] = marker["topics"]
    return Place(node=request.node, topic=topic["name"], partition=topic["partitionIndexes"][0])


@mutation("PE-05", TRANSACTIONS, fetches=False)
def transaction_ended_twice(copy: Copy) -> Place:
    """A coordinator answers 0 to an EndTxn that aborts a transaction which it has committed."""
    ended = copy.request(END, lambda r: r.header["requestApiVersion"] == 5 and r.answered["errorCode"] == 0)
    ended.write()
    ended.asked["committed"] = not ended.asked["committed"]
    ended.write_behind(ended)
    return Place(node=ended.node, client=ended.client, correlation_id=ended.correlation_id)


@mutation("PE-05", TRANSACTIONS, verdict="exposed", fetches=False)
def committed_transaction_marked_aborted(copy: Copy) -> Place:
    """The leader of a partition accepts a marker that aborts a committed transaction."""
    ended = copy.request(END, lambda r: r.header["requestApiVersion"] == 5 and r.answered["errorCode"] == 0)
    for request in copy.requests(MARKERS):
        for marker in request.asked["markers"]:
            if (marker["producerId"], marker["producerEpoch"]) == (
                ended.answered["producerId"],
                ended.answered["producerEpoch"],
            ):
                marker["transactionResult"] = not ended.asked["committed"]
                request.write()
                return Place(node=ended.node, client=ended.client, topic=marker["topics"][0]["name"])
    raise NotThereError("no marker of the transaction")
