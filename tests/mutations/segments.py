"""Logs of partitions: what the segments of two brokers hold. The recordings have none, so that they are written here."""

from __future__ import annotations

from typing import Final

from tests.mutations.editing import Copy
from tests.mutations.planting import Place, mutation
from tests.sources.batch_writer import batch

HEALTHY: Final = "kraft-k1-healthy"
TOPIC: Final = "orders"


def _add(copy: Copy, node: int, *batches: bytes, checkpoint: str = "0\n2\n0 0\n2 4\n") -> None:
    """The directory of a log of a partition that ends at offset 6, which is its high watermark, too."""
    folder = f"broker-{node}/data/{TOPIC}-0"
    copy.added[f"{folder}/00000000000000000000.log"] = b"".join(batches)
    copy.added[f"{folder}/leader-epoch-checkpoint"] = checkpoint.encode()
    copy.added[f"broker-{node}/data/replication-offset-checkpoint"] = f"0\n1\n{TOPIC} 0 6\n".encode()


_FIRST: Final = batch(0, b"a", b"b", b"c", b"d", epoch=0)
_LAST: Final = batch(4, b"e", b"f", epoch=2)


@mutation("EP-07", HEALTHY, fetches=False)
def disk_of_a_follower_has_another_batch(copy: Copy) -> Place:
    """A batch below the high watermark is overwritten on the disk of one replica, with a checksum of its own."""
    _add(copy, 1, _FIRST, _LAST)
    _add(copy, 2, batch(0, b"a", b"b", b"c", b"X", epoch=0), _LAST)
    return Place(topic=TOPIC, partition=0, leader_epoch=0, evidence="baseOffset: 0 lastOffset: 3")


@mutation("EP-08", HEALTHY, fetches=False)
def checkpoint_lacks_an_epoch(copy: Copy) -> Place:
    """leader-epoch-checkpoint of one replica has the epochs before and after one that its log has."""
    between = batch(4, b"e", epoch=1), batch(5, b"f", epoch=2)
    _add(copy, 1, _FIRST, *between, checkpoint="0\n3\n0 0\n1 4\n2 5\n")
    _add(copy, 2, _FIRST, *between, checkpoint="0\n2\n0 0\n2 5\n")
    return Place(node=2, topic=TOPIC, partition=0, leader_epoch=1, evidence="partitionLeaderEpoch: 1")


@mutation("EP-09", HEALTHY, fetches=False)
def former_leader_writes_behind_its_successor(copy: Copy) -> Place:
    """In the logs of both replicas a batch of leader epoch 0 follows one of leader epoch 2."""
    for node in (1, 2):
        _add(copy, node, _FIRST, batch(4, b"e", epoch=2), batch(5, b"f", epoch=0))
    return Place(topic=TOPIC, partition=0, leader_epoch=0, evidence="baseOffset: 5 lastOffset: 5")
