import java.io.DataInputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.Collections;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.ListOffsetsRequestData;
import org.apache.kafka.common.message.ListOffsetsResponseData;
import org.apache.kafka.common.message.OffsetForLeaderEpochRequestData;
import org.apache.kafka.common.message.OffsetForLeaderEpochResponseData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

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
        int correlationId = 0;
        Told.event("started").print();
        try (Socket broker = new Socket("127.0.0.1", Integer.parseInt(arguments[0]))) {
            broker.setSoTimeout(10000);
            for (int epoch = current - 1; epoch <= current + 1; epoch++) {
                ByteBufferAccessor offsets =
                    answer(broker, arguments[1], ++correlationId, listOffsets(topic, partition, epoch), LIST_OFFSETS_VERSION);
                tell("LIST_OFFSETS", epoch - current,
                    new ListOffsetsResponseData(offsets, LIST_OFFSETS_VERSION).topics().get(0).partitions().get(0).errorCode());
                ByteBufferAccessor end =
                    answer(broker, arguments[1], ++correlationId, endOffset(topic, partition, epoch), OFFSET_FOR_LEADER_EPOCH_VERSION);
                tell("OFFSET_FOR_LEADER_EPOCH", epoch - current,
                    new OffsetForLeaderEpochResponseData(end, OFFSET_FOR_LEADER_EPOCH_VERSION).topics().iterator().next().partitions().get(0)
                        .errorCode());
                ByteBufferAccessor records =
                    answer(broker, arguments[1], ++correlationId, fetch(topic, partition, epoch), FETCH_VERSION);
                tell("FETCH", epoch - current,
                    new FetchResponseData(records, FETCH_VERSION).responses().get(0).partitions().get(0).errorCode());
            }
        }
        Told.event("stopped").print();
    }

    private static void tell(String api, int distance, short errorCode) {
        Told.event(errorCode == 0 ? "answered" : "refused").with("command", api).with("distance", distance)
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

    private static ByteBufferAccessor answer(Socket broker, String client, int correlationId, ApiMessage request, short version)
        throws Exception {
        ApiMessageType type = ApiMessageType.fromApiKey(request.apiKey());
        short headerVersion = type.requestHeaderVersion(version);
        RequestHeaderData header = new RequestHeaderData().setRequestApiKey(request.apiKey()).setRequestApiVersion(version)
            .setCorrelationId(correlationId).setClientId(client);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int size = header.size(cache, headerVersion) + request.size(cache, version);
        ByteBuffer sent = ByteBuffer.allocate(Integer.BYTES + size);
        sent.putInt(size);
        ByteBufferAccessor writer = new ByteBufferAccessor(sent);
        header.write(writer, cache, headerVersion);
        request.write(writer, cache, version);
        broker.getOutputStream().write(sent.array());
        DataInputStream in = new DataInputStream(broker.getInputStream());
        byte[] received = new byte[in.readInt()];
        in.readFully(received);
        ByteBufferAccessor reader = new ByteBufferAccessor(ByteBuffer.wrap(received));
        int answered = new ResponseHeaderData(reader, type.responseHeaderVersion(version)).correlationId();
        if (answered != correlationId) {
            throw new IllegalStateException("the answer to " + correlationId + " has correlation id " + answered);
        }
        return reader;
    }
}
