"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster
from lab.comparison import Expected, Refusal
from lab.processes import RunError, wait_for
from lab.releases import KRAFT, SHARE_GROUPS_FROM
from lab.scenario import scenario

FENCED_LEADER_EPOCH, INVALID_RECORD_STATE, SHARE_SESSION_NOT_FOUND = 74, 121, 122
INVALID_SHARE_SESSION_EPOCH, FENCED_STATE_EPOCH = 123, 124
ANSWERS = {
    ("READ_SHARE_GROUP_STATE leader_epoch", -1): FENCED_LEADER_EPOCH,
    ("READ_SHARE_GROUP_STATE leader_epoch", 0): 0,
    ("WRITE_SHARE_GROUP_STATE leader_epoch", -1): FENCED_LEADER_EPOCH,
    ("WRITE_SHARE_GROUP_STATE leader_epoch", 0): 0,
    ("WRITE_SHARE_GROUP_STATE state_epoch", -1): FENCED_STATE_EPOCH,
    ("INITIALIZE_SHARE_GROUP_STATE state_epoch", -1): FENCED_STATE_EPOCH,
    ("SHARE_FETCH opens", 0): 0,
    ("SHARE_FETCH session_epoch", 0): 0,
    ("SHARE_FETCH session_epoch", -1): INVALID_SHARE_SESSION_EPOCH,
    ("SHARE_ACKNOWLEDGE session_epoch", 0): 0,
    ("SHARE_ACKNOWLEDGE session_epoch", -1): INVALID_SHARE_SESSION_EPOCH,
    ("SHARE_ACKNOWLEDGE closes", 0): 0,
    ("SHARE_FETCH closed", -1): SHARE_SESSION_NOT_FOUND,
}


@scenario("orders", modes=(KRAFT,), since=SHARE_GROUPS_FROM)
def share_group(cluster: Cluster) -> Expected:
    """A member of a share group is frozen past its lock, the leader is replaced, and stale requests follow: all are refused. No finding.

    Another member acquires the frozen one's records, and the frozen one's acknowledgement is refused with 121 (INVALID_RECORD_STATE). The
    new leader reads the group's state in its leader epoch. A client then reads and writes the state in the epoch before (74,
    FENCED_LEADER_EPOCH), writes and initializes it in an older state epoch (124, FENCED_STATE_EPOCH), and uses epochs of its share session
    again (123, INVALID_SHARE_SESSION_EPOCH) and after the end of the session (122, SHARE_SESSION_NOT_FOUND). The report must count these
    answers, and SH-01, SH-02 and SH-03 must have judged the client's requests as fenced.
    """
    cluster.admin("upgrade share.version latest")
    cluster.create("orders", "1,2,3", min_insync_replicas=2)
    shop = cluster.producer("shop", ["orders-0"], "all")
    billing = cluster.consumer("billing", ["orders"])
    shop.send(10)
    zombie = cluster.share_member("zombie", ["orders"], "pickers")
    zombie.wait("acquired", 10)
    zombie.freeze()
    zombie.tell("acknowledge")  # it reads this when it goes on
    successor = cluster.share_member("successor", ["orders"], "pickers")
    successor.wait("acquired")
    zombie.thaw()
    (refusal,) = zombie.wait("refused")
    cluster.note(f"{zombie.name} is refused: {refusal['error']}")
    if refusal["error"] != "InvalidRecordStateException":
        raise RunError(f"the acknowledgement of {zombie.name} failed for another reason: {refusal}")
    if successor.ask("acknowledge")["event"] != "done":
        raise RunError(f"{successor.name} had lost its records, too: the machine is too slow")
    for member in (zombie, successor):
        member.tell("follow")
    cluster.nodes[1].stop()
    leader = cluster.wait_for_leader("orders", other_than=1)
    cluster.nodes[1].start()
    cluster.wait_for_isr("orders", cluster.layout.brokers)
    shop.send_until_acknowledged()
    done = len(zombie.events("done")) + len(successor.events("done"))
    shop.send(5)
    wait_for(
        "a member acknowledges records of the new leader, which has read the group's state by then",
        lambda: len(zombie.events("done")) + len(successor.events("done")) >= done + 2,
    )
    last = shop.events("acknowledged")[-1]["value"]
    billing.wait("consumed", len(shop.events("acknowledged")))
    (current,) = {one["leader_epoch"] for one in billing.events("consumed") if one["value"] == last}
    if not current:
        raise RunError(f"{last} was written in leader epoch {current}: no older one can be asked for")
    coordinator = int(cluster.partition("__share_group_state")["leader"])
    stale = cluster.stale_share_requests("stale", coordinator, leader, "pickers", "orders", 0, current)
    answers = {
        (str(one["command"]), int(one["distance"])): int(one["error"]) for one in stale.events() if "distance" in one
    }
    if answers != ANSWERS:
        raise RunError(f"Kafka answered otherwise than its protocol says: {answers}")
    refusals = {(api.split()[0], code) for (api, _), code in ANSWERS.items() if code and "STATE" in api}
    return Expected(
        refusals=tuple(
            Refusal(api, (code,)) for api, code in sorted({*refusals, ("SHARE_ACKNOWLEDGE", INVALID_RECORD_STATE)})
        ),
        fenced=frozenset((rule, "stale") for rule in ("SH-01", "SH-02", "SH-03")),
    )
