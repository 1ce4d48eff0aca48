"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster
from lab.comparison import Expected, Refusal
from lab.processes import RunError
from lab.scenario import scenario

FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 74, 75
CODES = {"-1": FENCED_LEADER_EPOCH, "0": 0, "1": UNKNOWN_LEADER_EPOCH}  # by the distance from the current leader epoch
RULES = {"LIST_OFFSETS": ("LO-01", "LO-02"), "OFFSET_FOR_LEADER_EPOCH": ("OE-01", "OE-02"), "FETCH": ("FF-01", "FF-02")}


@scenario("orders", since=(2, 7))  # Fetch 12
def stale_requests(cluster: Cluster) -> Expected:
    """A client asks a leader in an older, in the current and in a newer leader epoch: the first and the last are fenced. No finding.

    It sends ListOffsets, OffsetForLeaderEpoch and Fetch, and gets 74 (FENCED_LEADER_EPOCH), 0 and 75 (UNKNOWN_LEADER_EPOCH). The
    report must count these answers, and LO-01, LO-02, OE-01, OE-02, FF-01 and FF-02 must have judged its requests as fenced.
    """
    cluster.create("orders", "1,2,3", min_insync_replicas=2)
    shop = cluster.producer("shop", ["orders-0"], "all")
    billing = cluster.consumer("billing", ["orders"])
    shop.send(10)
    cluster.nodes[1].stop()
    leader = cluster.wait_for_leader("orders", other_than=1)
    cluster.nodes[1].start()
    cluster.wait_for_isr("orders", cluster.layout.brokers)
    shop.send_until_acknowledged()
    last = shop.events("acknowledged")[-1]["value"]
    billing.wait("consumed", len(shop.events("acknowledged")))
    (current,) = {one["leader_epoch"] for one in billing.events("consumed") if one["value"] == last}
    if not current:
        raise RunError(f"{last} was written in leader epoch {current}: no older one can be asked for")
    stale = cluster.stale_requests("stale", leader, "orders", 0, current)
    answers = {(one["command"], str(one["distance"])): int(one["error"]) for one in stale.events() if "distance" in one}
    if answers != {(api, distance): code for api in RULES for distance, code in CODES.items()}:
        raise RunError(f"Kafka answered otherwise than its protocol says: {answers}")
    refusals = tuple(Refusal(api, (code,)) for api in RULES for code in (FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH))
    return Expected(refusals=refusals, fenced=frozenset((rule, "stale") for rules in RULES.values() for rule in rules))
