"""IS-13."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.kip841.eligibility import SUCCEEDED
from epochaudit.rules.rule import CRITICAL, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

INVALID_REQUEST = 42


@rule("IS-13", frame="isr_changes", kip="KIP-841", severity=CRITICAL, since="2.7")
class IsrAlteredByAnother(Rule):
    """A broker that is not the leader changed an ISR.

    ## What it checks
    Only the leader of a partition may change its ISR. A KRaft controller must answer 42 (INVALID_REQUEST) to an
    AlterPartition of any other broker. A ZooKeeper controller doesn't look at the sender: it would write the sender as
    leader. If such a request succeeds, that is a violation in either mode.

    ## Why it matters
    Who is not the leader knows neither the log end nor the high watermark: the ISR it names is no set of replicas that have
    all acknowledged records. In ZooKeeper mode the partition gets a second leader within one leader epoch.

    ## Evidence needed
    The controller's request log; KRaft: the metadata log; ZooKeeper: the controller's state-change.log.

    ## What is allowed
    Requests whose leader or partition epoch is not the current one are judged by those (IS-12): a deposed leader is
    refused with 74 or 41, not 42.

    ## Example
    Broker 2 follows broker 1 in orders-0 and sends an AlterPartition with both current epochs; it is answered 0.

    ## References
    KIP-841, AlterPartition RPC; ReplicationControlManager.validateAlterPartitionData.
    """

    evidence = {
        "the AlterPartition request and its answer": "request_ref",
        "the partition's state that the controller had": "met_ref",
        "the record that the controller wrote": "committed_ref",
    }
    expected = "error 42 (INVALID_REQUEST): broker {met_leader} was the leader"
    observed = "error {error_code} to broker {broker_id}"
    because = (
        "{topic}-{partition} was led by broker {met_leader} in leader epoch {met_leader_epoch}",
        "broker {broker_id} asked for ISR {isr} in leader epoch {leader_epoch}, partition epoch {partition_epoch}",
        "and was answered {error_code}",
    )

    def applies(self) -> Column:
        by_another = (col("error_code") == INVALID_REQUEST) & (col("current.leader") != col("broker_id"))
        return (col("request_error_code") == 0) & (
            col("error_code").isin(*SUCCEEDED) | F.coalesce(by_another, F.lit(False))
        )

    def verdict(self) -> tuple[Branch, ...]:
        told = col("zookeeper") & (col("met_leader_epoch") == col("leader_epoch"))  # its lines lack most ISR changes
        leader = F.coalesce(col("current.leader"), F.when(told, col("met_leader")))
        return first_of(
            fenced(col("error_code") == INVALID_REQUEST),
            unverifiable(leader.isNull(), "who led the partition in these epochs is not in the evidence"),
            passed(leader == col("broker_id")),
            otherwise=violation(),
        )
