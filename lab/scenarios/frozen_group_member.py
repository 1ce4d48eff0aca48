"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import NEW_GROUPS_FROM, SESSION_MS, Client, Cluster
from lab.comparison import Expected, Refusal
from lab.processes import RunError, wait_for
from lab.releases import KRAFT
from lab.scenario import scenario

# ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, STALE_MEMBER_EPOCH
FENCED = (22, 25, 110, 113)
_RULES = {"classic": "GE-01", "consumer": "GE-05"}


@scenario("orders")
def frozen_group_member(cluster: Cluster) -> Expected:
    """A group member is frozen beyond its session, and then commits: the coordinator refuses it. No finding.

    Another member has its partition by then. From 4.0 on a second group does the same with the group protocol of KIP-848. The report must
    count the refused OffsetCommit: 22 (ILLEGAL_GENERATION), 25 (UNKNOWN_MEMBER_ID), 110 (FENCED_MEMBER_EPOCH) or 113 (STALE_MEMBER_EPOCH).
    GE-01 must have judged that of the first group as fenced, GE-05 that of the second.
    """
    cluster.create("orders", "1,2,3")
    shop = cluster.producer("shop", ["orders-0"], "all", pause_ms=1)
    shop.send(20)
    protocols = ["classic"]
    if cluster.mode == KRAFT and cluster.release.number >= NEW_GROUPS_FROM:
        protocols.append("consumer")
    for protocol in protocols:
        settings: dict[str, object] = {"group_protocol": protocol} if protocol == "consumer" else {
            "session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": SESSION_MS // 3
        }  # fmt: skip
        zombie = cluster.consumer(f"{protocol}-zombie", ["orders"], group=f"{protocol}-group", **settings)
        zombie.wait("consumed", 20)
        zombie.ask("commit")
        shop.send(10)
        zombie.wait("consumed", len(shop.events("acknowledged")))
        zombie.ask("hold")
        zombie.freeze()
        zombie.tell("commit")  # it reads this when it goes on
        successor = cluster.consumer(f"{protocol}-successor", ["orders"], group=f"{protocol}-group", **settings)
        wait_for(f"{successor.name} has the partition", lambda one=successor: _has_partition(one))  # type: ignore[misc]
        successor.wait("consumed", 10)
        successor.ask("commit")
        zombie.thaw()
        (refusal,) = zombie.wait("refused")
        cluster.note(f"{zombie.name} is refused: {refusal['error']}")
        if refusal["error"] != "CommitFailedException":
            raise RunError(f"the commit of {zombie.name} failed for another reason: {refusal}")
        zombie.ask("resume")
        shop.send(10)
    fenced = frozenset((_RULES[protocol], f"{protocol}-zombie") for protocol in protocols)
    return Expected(refusals=(Refusal("OFFSET_COMMIT", FENCED),), fenced=fenced)


def _has_partition(client: Client) -> bool:
    return any(one["partitions"] for one in client.events("assigned"))
