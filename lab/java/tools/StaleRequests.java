import java.util.Collections;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.ListOffsetsRequestData;
import org.apache.kafka.common.message.ListOffsetsResponseData;
import org.apache.kafka.common.message.OffsetForLeaderEpochRequestData;
import org.apache.kafka.common.message.OffsetForLeaderEpochResponseData;
import org.apache.kafka.common.protocol.ByteBufferAccessor;

/**
 * StaleRequests PORT CLIENT TOPIC PARTITION LEADER_EPOCH: asks a leader in the epoch before, in this one and in the next, as consumers ask.
 *
 * <p>Clients of Kafka do not do so on purpose: they have a stale epoch for a moment only.
 */
public final class StaleRequests {
    private static final short LIST_OFFSETS_VERSION = 5;
    private static final short OFFSET_FOR_LEADER_EPOCH_VERSION = 3;
    private static final short FETCH_VERSION = 12;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[2];
        int partition = Integer.parseInt(arguments[3]);
        int current = Integer.parseInt(arguments[4]);
        ClientEvent.of("started").print();
        try (Connection broker = new Connection(Integer.parseInt(arguments[0]), arguments[1])) {
            for (int epoch = current - 1; epoch <= current + 1; epoch++) {
                ByteBufferAccessor offsets = broker.answer(listOffsets(topic, partition, epoch), LIST_OFFSETS_VERSION);
                report("LIST_OFFSETS", epoch - current,
                    new ListOffsetsResponseData(offsets, LIST_OFFSETS_VERSION).topics().get(0).partitions().get(0).errorCode());
                ByteBufferAccessor end = broker.answer(endOffset(topic, partition, epoch), OFFSET_FOR_LEADER_EPOCH_VERSION);
                report("OFFSET_FOR_LEADER_EPOCH", epoch - current,
                    new OffsetForLeaderEpochResponseData(end, OFFSET_FOR_LEADER_EPOCH_VERSION).topics().iterator().next().partitions().get(0)
                        .errorCode());
                ByteBufferAccessor records = broker.answer(fetch(topic, partition, epoch), FETCH_VERSION);
                report("FETCH", epoch - current,
                    new FetchResponseData(records, FETCH_VERSION).responses().get(0).partitions().get(0).errorCode());
            }
        }
        ClientEvent.of("stopped").print();
    }

    private static void report(String api, int distance, short errorCode) {
        ClientEvent.of(errorCode == 0 ? "answered" : "refused").with("command", api).with("distance", distance)
            .with("error", String.valueOf(errorCode)).print();
    }

    private static ListOffsetsRequestData listOffsets(String topic, int partition, int epoch) {
        return new ListOffsetsRequestData().setReplicaId(-1).setTopics(Collections.singletonList(
            new ListOffsetsRequestData.ListOffsetsTopic().setName(topic).setPartitions(Collections.singletonList(
                new ListOffsetsRequestData.ListOffsetsPartition().setPartitionIndex(partition).setCurrentLeaderEpoch(epoch).setTimestamp(-1)))));
    }

    private static OffsetForLeaderEpochRequestData endOffset(String topic, int partition, int epoch) {
        OffsetForLeaderEpochRequestData.OffsetForLeaderTopicCollection topics =
            new OffsetForLeaderEpochRequestData.OffsetForLeaderTopicCollection();
        topics.add(new OffsetForLeaderEpochRequestData.OffsetForLeaderTopic().setTopic(topic).setPartitions(Collections.singletonList(
            new OffsetForLeaderEpochRequestData.OffsetForLeaderPartition().setPartition(partition).setCurrentLeaderEpoch(epoch)
                .setLeaderEpoch(0))));
        return new OffsetForLeaderEpochRequestData().setReplicaId(-1).setTopics(topics);
    }

    private static FetchRequestData fetch(String topic, int partition, int epoch) {
        return new FetchRequestData().setMaxWaitMs(100).setMinBytes(0).setMaxBytes(100000).setSessionId(0).setSessionEpoch(-1)
            .setTopics(Collections.singletonList(new FetchRequestData.FetchTopic().setTopic(topic).setPartitions(Collections.singletonList(
                new FetchRequestData.FetchPartition().setPartition(partition).setCurrentLeaderEpoch(epoch).setFetchOffset(0)
                    .setPartitionMaxBytes(100000)))));
    }
}
