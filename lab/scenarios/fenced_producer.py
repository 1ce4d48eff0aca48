"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Client, Cluster
from lab.comparison import Expected, Refusal
from lab.processes import RunError
from lab.scenario import scenario

INVALID_PRODUCER_EPOCH, PRODUCER_FENCED = 47, 90
ABORTS_TRANSACTIONS = (3, 0)  # KIP-664
COORDINATORS = "__transaction_state"


@scenario("payments")
def fenced_producer(cluster: Cluster) -> Expected:
    """Transactional producers and a coordinator are replaced, and go on: the coordinator and the leader fence them. No finding.

    Two transactional ids. Of the first, the zombie commits: the coordinator must refuse EndTxn, and PE-01 judge this as fenced. Of the
    second, the zombie writes once more: the partition's leader must refuse Produce, and the report count it. PE-01 and PE-04 must have
    judged the other requests as right. From 3.0 on, another coordinator takes over and writes a marker. Then an administrator states the
    coordinator epoch before: the leader must refuse it, and PE-04 judge this as fenced.
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
    refusals = (Refusal("PRODUCE", (INVALID_PRODUCER_EPOCH, PRODUCER_FENCED)),)
    fenced, passed = frozenset({("PE-01", "settle-zombie")}), frozenset({"PE-01", "PE-04"})
    if cluster.release.number < ABORTS_TRANSACTIONS:
        return Expected(refusals=refusals, fenced=fenced, passed=passed)
    _replace_coordinator(cluster, successor)
    return Expected(refusals=refusals, fenced=fenced | {("PE-04", "administrator")}, passed=passed)


def _replace_coordinator(cluster: Cluster, producer: Client) -> None:
    """The next coordinator ends a transaction; an administrator does so in the coordinator epoch before."""
    former = int(cluster.partition(COORDINATORS)["leader"])
    cluster.nodes[former].stop()
    cluster.wait_for_leader(COORDINATORS, other_than=former)
    for command in ("begin", "send payments 0", "commit"):
        _ask(cluster, producer.ask(command), f"{producer.name}: {command}")
    cluster.nodes[former].start()
    cluster.wait_for_isr("payments", cluster.layout.brokers)
    answer = cluster.admin("end-transaction payments 0 -1", may_fail=True)
    if answer.get("error") != "TransactionCoordinatorFencedException":
        raise RunError(f"a marker of coordinator epoch {answer.get('coordinator_epoch')} was not refused: {answer}")


def _ask(cluster: Cluster, answer: dict[str, object], what: str) -> None:
    if answer["event"] != "done":
        raise RunError(f"{what} failed: {answer}")
    cluster.note(what)
