import java.io.File;
import java.io.IOException;
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
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.metadata.MetadataRecordSerde;

/** Registrations and partitions by the metadata log of the only controller: what it decides by. */
final class MetadataState {
    private static final int NO_LEADER_CHANGE = -2;

    private final Map<Uuid, String> topics = new LinkedHashMap<>();
    private final Map<String, Map<String, Object>> partitions = new TreeMap<>();
    private final Map<Integer, Map<String, Object>> brokers = new TreeMap<>();

    /** All records of a segment, the first one of its log. */
    static MetadataState read(File segment) throws IOException {
        MetadataState state = new MetadataState();
        try (FileRecords records = FileRecords.open(segment, false)) {
            for (RecordBatch batch : records.batches()) {
                if (!batch.isControlBatch()) {
                    for (Record record : batch) {
                        state.apply(MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(record.value()), record.valueSize()).message());
                    }
                }
            }
        }
        return state;
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
