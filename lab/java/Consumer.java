import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Consumer follow|group|read TOPICS name=value...: TOPICS as orders,payments.
 *
 * <p>`follow` reads all partitions without a group. `group` subscribes. `read` reads what the partitions hold now, prints it as `stored`
 * and ends. Commands: `commit`, `hold` (no poll from now on), `resume`, `stop`.
 */
public final class Consumer {
    public static void main(String[] arguments) throws Exception {
        Properties settings = Commands.settings(arguments, 2);
        Commands commands = new Commands();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            List<String> topics = Arrays.asList(arguments[1].split(","));
            if (arguments[0].equals("group")) {
                subscribe(consumer, topics);
            } else {
                consumer.assign(partitions(consumer, topics));
                consumer.seekToBeginning(consumer.assignment());
            }
            ClientEvent.of("started").print();
            if (arguments[0].equals("read")) {
                read(consumer);
            } else {
                follow(consumer, commands);
            }
        }
        ClientEvent.of("stopped").print();
    }

    private static List<TopicPartition> partitions(KafkaConsumer<String, String> consumer, List<String> topics) {
        List<TopicPartition> all = new ArrayList<>();
        for (String topic : topics) {
            consumer.partitionsFor(topic).forEach(one -> all.add(new TopicPartition(topic, one.partition())));
        }
        return all;
    }

    private static void subscribe(KafkaConsumer<String, String> consumer, List<String> topics) {
        consumer.subscribe(topics, new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                ClientEvent.of("revoked").with("partitions", partitions.size()).print();
            }

            // without @Override: up to 2.3 there is no such method
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                ClientEvent.of("lost").with("partitions", partitions.size()).print();
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                ClientEvent.of("assigned").with("partitions", partitions.size()).print();
            }
        });
    }

    private static void read(KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, Long> ends = consumer.endOffsets(consumer.assignment());
        while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                report("stored", record);
            }
        }
        ends.forEach((partition, end) ->
            ClientEvent.of("end").with("topic", partition.topic()).with("partition", partition.partition()).with("offset", end).print());
    }

    private static void follow(KafkaConsumer<String, String> consumer, Commands commands) throws InterruptedException {
        boolean polls = true;
        while (true) {
            String[] command = commands.next(polls ? 0 : 1000);
            if (command != null && command[0].equals("stop")) {
                return;
            }
            try {
                if (command != null && command[0].equals("commit")) {
                    consumer.commitSync();
                    ClientEvent.of("done").with("command", "commit").print();
                } else if (command != null) {
                    polls = command[0].equals("resume");
                    ClientEvent.of("done").with("command", command[0]).print();
                }
            } catch (KafkaException e) {
                ClientEvent.of("refused").with("command", command[0]).error(e).print();
            }
            if (!polls) {
                continue;
            }
            try {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    report("consumed", record);
                }
            } catch (KafkaException e) {
                ClientEvent.of("poll_failed").error(e).print();
                Thread.sleep(200);
            }
        }
    }

    private static void report(String event, ConsumerRecord<String, String> record) {
        ClientEvent.of(event).with("topic", record.topic()).with("partition", record.partition()).with("offset", record.offset())
            .with("leader_epoch", record.leaderEpoch().orElse(null)).with("value", record.value()).print();
    }
}
