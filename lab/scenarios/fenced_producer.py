"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster
from lab.comparison import Expected, Refusal
from lab.processes import RunError
from lab.scenario import scenario

INVALID_PRODUCER_EPOCH, PRODUCER_FENCED = 47, 90


@scenario("payments")
def fenced_producer(cluster: Cluster) -> Expected:
    """Transactional producers are frozen, replaced, and go on: the coordinator and the leader fence them. No finding.

    Two transactional ids. Of the first, the zombie commits: the coordinator must refuse EndTxn, and PE-01 judge this as fenced. Of the
    second, the zombie writes once more: the partition's leader must refuse Produce, and the report count it. Request logs as text (up to
    2.7) have no transactional id, and so no verdict of PE-01.
    """
    cluster.create("payments", "1,2,3")
    for transactional_id, next_command in (("settle", "commit"), ("refund", "send payments 0")):
        zombie = cluster.transactions(f"{transactional_id}-zombie", transactional_id)
        for command in ("init", "begin", "send payments 0", "commit", "begin", "send payments 0"):
            _ask(cluster, zombie.ask(command), f"{zombie.name}: {command}")
        zombie.freeze()
        successor = cluster.transactions(f"{transactional_id}-successor", transactional_id)
        for command in ("init", "begin", "send payments 0", "commit"):
            _ask(cluster, successor.ask(command), f"{successor.name}: {command}")
        zombie.thaw()
        refusal = zombie.ask(next_command)
        if refusal["event"] != "refused":
            raise RunError(f"{zombie.name} was not refused: {refusal}")
        cluster.note(f"{zombie.name} is refused: {refusal['error']}")
    fenced = frozenset({("PE-01", "settle-zombie")} if cluster.release.logs_requests_as_json else ())
    return Expected(refusals=(Refusal("PRODUCE", (INVALID_PRODUCER_EPOCH, PRODUCER_FENCED)),), fenced=fenced)


def _ask(cluster: Cluster, answer: dict[str, object], what: str) -> None:
    if answer["event"] != "done":
        raise RunError(f"{what} failed: {answer}")
    cluster.note(what)
