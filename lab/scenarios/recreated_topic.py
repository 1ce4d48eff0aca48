"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster
from lab.comparison import Expected
from lab.processes import wait_for
from lab.scenario import scenario

FETCH_BY_TOPIC_ID_FROM = (3, 1)


@scenario("sessions")
def recreated_topic(cluster: Cluster) -> Expected:
    """A topic is deleted and created again with the same name: a consumer that goes on skips its first records.

    One consumer ends before the deletion, and its successor reads the new topic from the start. Another is frozen meanwhile, and goes on at
    the offset where it was: it never reads what the new topic has below. Nothing was lost, and deleted records are no loss. The report must
    name the frozen consumer (TI-09) and exactly the offsets that it skipped; up to 3.0, whose consumers fetch by name, TI-08 must report
    it, too.
    """
    replicas = "1,2,3"
    cluster.create("sessions", replicas)
    old = cluster.producer("web-old", ["sessions-0"], "all", pause_ms=1)
    first = cluster.consumer("reports-old", ["sessions"])
    frozen = cluster.consumer("archive", ["sessions"])
    old.send(30)
    for consumer in (first, frozen):
        consumer.wait("consumed", 30)
    first.stop()
    old.stop()
    frozen.freeze()
    former = cluster.admin("describe sessions")["topic_id"]
    cluster.delete("sessions")
    wait_for("sessions is deleted", lambda: "error" in cluster.admin("describe sessions", may_fail=True), 30)
    cluster.create("sessions", replicas)
    cluster.note(f"topic id {former} is followed by {cluster.admin('describe sessions')['topic_id']}")
    new = cluster.producer("web-new", ["sessions-0"], "all", pause_ms=1)
    second = cluster.consumer("reports-new", ["sessions"])
    new.send(50)
    second.wait("consumed", 50)
    frozen.thaw()
    frozen.wait("consumed", 50, 60)
    new.send(10)
    frozen.wait("consumed", 60)
    rules = ("TI-09",) if cluster.release.number >= FETCH_BY_TOPIC_ID_FROM else ("TI-08", "TI-09")
    return Expected(
        required=frozenset((rule, "sessions", 0) for rule in rules),
        deleted=frozenset({"web-old"}),
        skipped=frozenset({("archive", "sessions", 0)}),
    )
