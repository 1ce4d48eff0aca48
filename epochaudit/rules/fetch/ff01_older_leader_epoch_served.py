"""FF-01."""

from __future__ import annotations

from epochaudit.rules.leader_epoch_fence import OlderEpochFetchRule
from epochaudit.rules.rule import HIGH, rule


@rule("FF-01", frame="fetches", kip="KIP-320", severity=HIGH, since="2.1")
class OlderLeaderEpochServed(OlderEpochFetchRule):
    """A Fetch in an older leader epoch was served.

    ## What it checks
    Fetch 9+ carries the leader epoch that the follower or consumer knows. A broker that holds a newer one for the
    partition, as leader or follower, must answer 74 (FENCED_LEADER_EPOCH). 74 for the broker's current epoch, and 75 for an
    older one, are wrong answers.

    ## Why it matters
    The requester has not learned of an election. A follower that is served does not truncate the records that the new
    leader lacks, and its fetch offset may count towards the high watermark. A consumer reads on past a truncation. The
    severity is medium if a consumer sent the request.

    ## Evidence needed
    The request log and the node's "starts at leader epoch" lines. For partitions that an incremental fetch leaves out: the
    request of the session that last listed them. For incremental Fetches below version 12: the broker's version. If no line
    of the broker's state-change.log is later than the request, that log may have been copied first: 74 for its last epoch is
    unverifiable then.

    ## What is allowed
    A request without a leader epoch (-1) skips the fence. While a broker changes its leader epoch, from its line to the
    end of the handler, an answer that is right for the old or the new epoch passes. If the epoch changed within half a
    second before the request, what is wrong for the new epoch is unverifiable, as request lines may be written late. A
    Fetch that waits is checked at its arrival and again when it is answered. Codes that precede the epoch check say
    nothing about the epoch: 3 UNKNOWN_TOPIC_OR_PARTITION, 6 NOT_LEADER_OR_FOLLOWER, 56 KAFKA_STORAGE_ERROR, 100
    UNKNOWN_TOPIC_ID, 103 INCONSISTENT_TOPIC_ID. If the broker's epoch is not recorded, its answer 74 shows that it was
    newer. A broker that creates the replica again has leader epoch -1 until it has a log, and answers 75 to any
    (FF-02). One that creates a follower may answer 74 before it writes its "starts at leader epoch" line: such an
    answer is unverifiable. What is served between the replica's deletion at the broker and its next recorded creation
    is unverifiable; after a StopReplica SR-06 judges it. Kafka 2.1.0 to 2.4.1 lose the epoch in incremental sessions
    (KAFKA-9338): reported as exposed, and as unverifiable if the broker's version is not recorded and the Fetch is
    below version 12.

    ## What to do
    Restart a follower that fetched so: it compares its log with the leader's again; then audit the segments of both
    (EP-07). A consumer needs a new position only if TR-01 or CO-04 names it, too; `epochaudit timeline TOPIC-PARTITION`
    shows who fetched. Exposed means 2.1.0 to 2.4.1, whose incremental fetch sessions check no epoch: upgrade brokers to
    2.5.0 (KAFKA-9338).

    ## Example
    Broker 2 leads orders-0 in epoch 7. A consumer that still knows epoch 6 fetches from it and gets records.

    ## References
    Partition.getLocalLog, FetchSession; KIP-320, Leader Fetch Handling; KAFKA-9338.
    """
