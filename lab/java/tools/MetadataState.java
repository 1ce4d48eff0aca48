import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.BrokerRegistrationChangeRecord;
import org.apache.kafka.common.metadata.FenceBrokerRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metadata.UnfenceBrokerRecord;
import org.apache.kafka.common.metadata.UnregisterBrokerRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.metadata.MetadataRecordSerde;

/** Registrations and partitions by the metadata log of the only controller: what it decides by. */
final class MetadataState {
    private static final int NO_LEADER_CHANGE = -2;
    // of a batch: the size before its records, the last part of which is their number; positions in it; a bit of its attributes
    private static final int HEADER_SIZE = 61;
    private static final int LENGTH_AT = 8;
    private static final int ATTRIBUTES_AT = 21;
    private static final int CONTROL_BATCH = 0x20;

    private final Map<Uuid, String> topics = new LinkedHashMap<>();
    private final Map<String, Map<String, Object>> partitions = new TreeMap<>();
    private final Map<Integer, Map<String, Object>> brokers = new TreeMap<>();

    /**
     * All records of a segment, the first one of its log.
     *
     * <p>It reads batches itself, as their classes are in another package since 4.4. The end of the file may lack a part of a batch.
     */
    static MetadataState read(Path segment) throws IOException {
        MetadataState state = new MetadataState();
        ByteBuffer log = ByteBuffer.wrap(Files.readAllBytes(segment));
        while (log.remaining() >= HEADER_SIZE && log.getInt(log.position() + LENGTH_AT) <= log.remaining() - LENGTH_AT - Integer.BYTES) {
            int start = log.position();
            int end = start + LENGTH_AT + Integer.BYTES + log.getInt(start + LENGTH_AT);
            if ((log.getShort(start + ATTRIBUTES_AT) & CONTROL_BATCH) == 0) {
                ByteBuffer records = log.slice(start + HEADER_SIZE, end - start - HEADER_SIZE);
                state.applyAll(log.getInt(start + HEADER_SIZE - Integer.BYTES), new ByteBufferAccessor(records));
            }
            log.position(end);
        }
        return state;
    }

    private void applyAll(int count, ByteBufferAccessor records) {
        for (int i = 0; i < count; i++) {
            int length = records.readVarint();
            int next = records.buffer().position() + length;
            records.readByte(); // attributes
            records.readVarlong(); // of the timestamp
            records.readVarint(); // of the offset
            records.readVarint(); // the key's length: it has none
            int size = records.readVarint();
            ByteBuffer value = records.buffer().slice(records.buffer().position(), size);
            apply(MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(value), size).message());
            records.buffer().position(next);
        }
    }

    void print() {
        ClientEvent.of("state").with("brokers", brokers).with("partitions", new ArrayList<>(partitions.values())).print();
    }

    private void apply(ApiMessage record) {
        if (record instanceof TopicRecord) {
            topics.put(((TopicRecord) record).topicId(), ((TopicRecord) record).name());
        } else if (record instanceof PartitionRecord) {
            create((PartitionRecord) record);
        } else if (record instanceof PartitionChangeRecord) {
            change((PartitionChangeRecord) record);
        } else if (record instanceof RegisterBrokerRecord) {
            register((RegisterBrokerRecord) record);
        } else if (record instanceof BrokerRegistrationChangeRecord) {
            BrokerRegistrationChangeRecord changed = (BrokerRegistrationChangeRecord) record;
            Map<String, Object> broker = brokers.get(changed.brokerId());
            if (changed.fenced() != 0) {
                broker.put("fenced", changed.fenced() > 0);
            }
            if (changed.inControlledShutdown() != 0) {
                broker.put("in_controlled_shutdown", true);
            }
        } else if (record instanceof FenceBrokerRecord) {
            brokers.get(((FenceBrokerRecord) record).id()).put("fenced", true);
        } else if (record instanceof UnfenceBrokerRecord) {
            brokers.get(((UnfenceBrokerRecord) record).id()).put("fenced", false);
        } else if (record instanceof UnregisterBrokerRecord) {
            brokers.remove(((UnregisterBrokerRecord) record).brokerId());
        }
    }

    private void register(RegisterBrokerRecord record) {
        Map<String, Object> broker = new LinkedHashMap<>();
        broker.put("broker_epoch", record.brokerEpoch());
        broker.put("incarnation_id", record.incarnationId().toString());
        broker.put("fenced", record.fenced());
        broker.put("in_controlled_shutdown", record.inControlledShutdown());
        brokers.put(record.brokerId(), broker);
    }

    private void create(PartitionRecord record) {
        Map<String, Object> partition = new LinkedHashMap<>();
        partition.put("topic", topics.get(record.topicId()));
        partition.put("topic_id", record.topicId().toString());
        partition.put("partition", record.partitionId());
        partition.put("leader", record.leader());
        partition.put("leader_epoch", record.leaderEpoch());
        partition.put("partition_epoch", record.partitionEpoch());
        partition.put("isr", record.isr());
        partition.put("replicas", record.replicas());
        partitions.put(key(record.topicId(), record.partitionId()), partition);
    }

    private void change(PartitionChangeRecord record) {
        Map<String, Object> partition = partitions.get(key(record.topicId(), record.partitionId()));
        if (record.leader() != NO_LEADER_CHANGE) {  // also if it names the leader that the partition has
            partition.put("leader", record.leader());
            partition.put("leader_epoch", (Integer) partition.get("leader_epoch") + 1);
        }
        List<Integer> isr = record.isr();
        if (isr != null) {
            partition.put("isr", isr);
        }
        if (record.replicas() != null) {
            partition.put("replicas", record.replicas());
        }
        partition.put("partition_epoch", (Integer) partition.get("partition_epoch") + 1);
    }

    private static String key(Uuid topic, int partition) {
        return topic + "-" + partition;
    }
}
