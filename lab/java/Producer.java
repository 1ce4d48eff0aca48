import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Producer PARTITIONS PAUSE_MS name=value...: PARTITIONS as orders-0,orders-1.
 *
 * <p>Sends one record at a time, to the partitions in turn, and waits for its answer: each batch has one record. Commands: `send N`,
 * `run`, `halt`, `stop`.
 */
public final class Producer {
    public static void main(String[] arguments) throws Exception {
        List<String> topics = new ArrayList<>();
        List<Integer> partitions = new ArrayList<>();
        for (String name : arguments[0].split(",")) {
            int dash = name.lastIndexOf('-');
            topics.add(name.substring(0, dash));
            partitions.add(Integer.valueOf(name.substring(dash + 1)));
        }
        long pause = Long.parseLong(arguments[1]);
        Properties settings = Commands.settings(arguments, 2);
        String client = settings.getProperty("client.id");
        Commands commands = new Commands();
        long left = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            Told.event("started").with("acks", settings.getProperty("acks")).print();
            for (long number = 0; ; ) {
                String[] command = commands.next(left > 0 ? pause : 20);
                if (command != null) {
                    if (command[0].equals("stop")) {
                        break;
                    }
                    left = command[0].equals("send") ? left + Long.parseLong(command[1]) : command[0].equals("run") ? Long.MAX_VALUE : 0;
                    Told.event(command[0]).print();
                }
                if (left == 0) {
                    continue;
                }
                int index = (int) (number % topics.size());
                String value = client + "-" + number;
                Told.event("sent").with("topic", topics.get(index)).with("partition", partitions.get(index)).with("value", value).print();
                try {
                    RecordMetadata kept = producer.send(new ProducerRecord<>(topics.get(index), partitions.get(index), null, value)).get();
                    Told.event("acknowledged").with("topic", kept.topic()).with("partition", kept.partition()).with("offset", kept.offset())
                        .with("value", value).print();
                } catch (Exception e) {
                    Told.event("failed").with("topic", topics.get(index)).with("partition", partitions.get(index)).with("value", value).error(e)
                        .print();
                }
                number++;
                left--;
            }
        }
        Told.event("stopped").print();
    }
}
