"""IS-13."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.kafka.errors import Errors
from epochaudit.rules.isr.eligibility import ASKED, SUCCEEDED
from epochaudit.rules.rule import CRITICAL, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


@rule("IS-13", frame="isr_changes", kip="KIP-841", severity=CRITICAL, since="2.7")
class IsrAlteredByAnother(Rule):
    """A broker that is not the leader changed an ISR.

    ## What it checks
    Only the leader of a partition may change its ISR. A KRaft controller must answer 42 (INVALID_REQUEST) to an
    AlterPartition of any other broker. A ZooKeeper controller doesn't check the sender, and would write the sender as
    leader. In both modes such a request that succeeds is a violation.

    ## Why it matters
    Other brokers know neither the log end nor the high watermark, so members of their ISR may lack acknowledged records. In
    ZooKeeper mode the partition gets a second leader within one leader epoch.

    ## Evidence needed
    The controller's request log; KRaft: the metadata log; ZooKeeper: the controller's state-change.log.

    ## What is allowed
    Kafka uses a topic id once. If the metadata log creates a partition twice under one id, and both had these epochs
    with another leader, the sender is unverifiable. Requests with an outdated leader or partition epoch (IS-12): a
    deposed leader is refused with 74 or 41, not 42. KRaft 2.8 checks the sender first and refuses with 42.

    ## What to do
    Find the sender, by the principal and `connection` of the request line, and stop it if it is no broker of yours.
    Then restart the leader that the cluster has now, so that an election begins a new epoch with one leader, and check
    the ISR. With ZooKeeper no release checks the sender: allow `ClusterAction` to brokers only, or migrate to KRaft.

    ## Example
    Broker 2 follows broker 1 in orders-0 and sends an AlterPartition with both current epochs. It is answered 0.

    ## References
    KIP-841, AlterPartition RPC; ReplicationControlManager.validateAlterPartitionData.
    """

    evidence = {
        "the AlterPartition request and its answer": "request_ref",
        "the partition's state that the controller had": "state_ref",
        "the record that the controller wrote": "committed_ref",
    }
    expected = "broker {broker_id}, which asked for the ISR, is the leader"
    observed = "answered {error_code} to broker {broker_id}"
    because = ("{topic}-{partition} was led by broker {current_leader} in leader epoch {leader_epoch}", ASKED)

    def applies(self) -> Column:
        in_these_epochs = col("current_leader").isNotNull() & (col("current.leader") != col("broker_id"))
        by_another = (col("error_code") == Errors.INVALID_REQUEST) & in_these_epochs
        return (col("request_error_code") == Errors.NONE) & (col("error_code").isin(*SUCCEEDED) | by_another)

    def verdict(self) -> tuple[Branch, ...]:
        leader = col("current_leader")
        refusal = "error {INVALID_REQUEST} to broker {broker_id}, which is not the leader"
        return first_of(
            fenced(col("error_code") == Errors.INVALID_REQUEST, expected=refusal, observed="error {INVALID_REQUEST}"),
            unverifiable(leader.isNull(), "who led the partition in these epochs is not in the evidence"),
            passed(leader == col("broker_id"), observed="broker {broker_id} is the leader"),
            otherwise=violation(expected=refusal, observed="answered {error_code}: the ISR was changed"),
        )
