"""See the function's docstring."""

from __future__ import annotations

import time

from lab.cluster import Client, Cluster
from lab.comparison import Expected, Refusal
from lab.node_settings import NEW_GROUPS_FROM, SESSION_MS
from lab.processes import RunError, wait_for
from lab.releases import KRAFT
from lab.scenario import scenario

# ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH, STALE_MEMBER_EPOCH
FENCED = (22, 25, 82, 110, 113)
_RULES = {"classic": "GE-01", "static": "GE-03", "consumer": "GE-05"}
_STOPS_WITHIN_SECONDS = 1  # on a busy machine a process runs on for a moment after SIGSTOP
_APART_SECONDS = 2  # rules compare times that are a second apart
_REFUSALS = {"CommitFailedException", "FencedInstanceIdException"}


@scenario("orders")
def frozen_group_member(cluster: Cluster) -> Expected:
    """A group member is frozen beyond its session, and then commits: the coordinator refuses it. No finding.

    Another member has its partition by then; in a second group, because it has the same group.instance.id. From 4.0 on a third group does
    as the first with the group protocol of KIP-848. A consumer in no group commits for the first one, while that has a member. The
    report must count the refused OffsetCommit: 22 (ILLEGAL_GENERATION), 25 (UNKNOWN_MEMBER_ID), 82 (FENCED_INSTANCE_ID), 110
    (FENCED_MEMBER_EPOCH) or 113 (STALE_MEMBER_EPOCH). GE-01, GE-03, GE-05 and GE-02 must have judged them as fenced, and GE-01 other
    commits as right.
    """
    cluster.create("orders", "1,2,3")
    shop = cluster.producer("shop", ["orders-0"], "all", pause_ms=1)
    shop.send(20)
    protocols = ["classic", "static"]
    if cluster.mode == KRAFT and cluster.release.number >= NEW_GROUPS_FROM:
        protocols.append("consumer")
    for protocol in protocols:
        settings: dict[str, object] = {"group_protocol": protocol} if protocol == "consumer" else {
            "session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": SESSION_MS // 3
        }  # fmt: skip
        if protocol == "static":
            settings["group_instance_id"] = "till-1"
        zombie = cluster.consumer(f"{protocol}-zombie", ["orders"], group=f"{protocol}-group", **settings)
        zombie.wait("consumed", 20)
        zombie.ask("commit")
        shop.send(10)
        zombie.wait("consumed", len(shop.events("acknowledged")))
        zombie.ask("hold")
        zombie.freeze()
        time.sleep(_STOPS_WITHIN_SECONDS)
        zombie.tell("commit")  # it reads this when it goes on
        successor = cluster.consumer(f"{protocol}-successor", ["orders"], group=f"{protocol}-group", **settings)
        wait_for(f"{successor.name} has the partition", lambda one=successor: _has_partition(one))  # type: ignore[misc]
        successor.wait("consumed", 10)
        successor.ask("commit")
        if protocol == "classic":
            shop.send(10)
            _commit_without_group(cluster, successor)
        time.sleep(_APART_SECONDS)
        zombie.thaw()
        (refusal,) = zombie.wait("refused")
        cluster.note(f"{zombie.name} is refused: {refusal['error']}")
        if refusal["error"] not in _REFUSALS:
            raise RunError(f"the commit of {zombie.name} failed for another reason: {refusal}")
        if protocol != "static":  # a poll would end the client: another has its name
            zombie.ask("resume")
        shop.send(10)
    fenced = {(_RULES[protocol], f"{protocol}-zombie") for protocol in protocols} | {("GE-02", "stranger")}
    refusals = (Refusal("OFFSET_COMMIT", FENCED),)
    return Expected(refusals=refusals, fenced=frozenset(fenced), passed=frozenset({"GE-01"}))


def _commit_without_group(cluster: Cluster, member: Client) -> None:
    """A consumer that is in no group commits for the member's group, between two commits of the member."""
    time.sleep(_APART_SECONDS)
    stranger = cluster.consumer("stranger", ["orders"], group_id="classic-group")
    stranger.wait("consumed", 10)
    refusal = stranger.ask("commit")
    if refusal["event"] != "refused":
        raise RunError(f"{stranger.name} was not refused: {refusal}")
    cluster.note(f"{stranger.name} is refused: {refusal['error']}")
    time.sleep(_APART_SECONDS)
    member.ask("commit")
    stranger.stop()


def _has_partition(client: Client) -> bool:
    return any(one["partitions"] for one in client.events("assigned"))
