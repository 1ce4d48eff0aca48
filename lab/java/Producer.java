import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Producer PARTITIONS PAUSE_MS RECORDS name=value...: PARTITIONS as orders-0,orders-1.
 *
 * <p>Sends one batch of RECORDS records at a time, to the partitions in turn, and waits for its answer. linger.ms must be longer than it
 * takes to hand over a batch: flush() sends it at once, and whole. Commands: `send N` (batches), `run`, `halt`, `stop`.
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
        int records = Integer.parseInt(arguments[2]);
        Properties settings = Commands.settings(arguments, 3);
        String client = settings.getProperty("client.id");
        Commands commands = new Commands();
        long left = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            ClientEvent.of("started").with("acks", settings.getProperty("acks")).print();
            for (long number = 0; ; ) {
                String[] command = commands.next(left > 0 ? pause : 20);
                if (command != null) {
                    if (command[0].equals("stop")) {
                        break;
                    }
                    left = command[0].equals("send") ? left + Long.parseLong(command[1]) : command[0].equals("run") ? Long.MAX_VALUE : 0;
                    ClientEvent.of(command[0]).print();
                }
                if (left == 0) {
                    continue;
                }
                int index = (int) (number % topics.size());
                List<String> values = new ArrayList<>();
                List<Future<RecordMetadata>> answers = new ArrayList<>();
                for (int record = 0; record < records; record++) {
                    String value = client + "-" + (number * records + record);
                    ClientEvent.of("sent").with("topic", topics.get(index)).with("partition", partitions.get(index)).with("value", value).print();
                    values.add(value);
                    answers.add(producer.send(new ProducerRecord<>(topics.get(index), partitions.get(index), null, value)));
                }
                if (records > 1) {
                    producer.flush();
                }
                for (int record = 0; record < records; record++) {
                    try {
                        RecordMetadata stored = answers.get(record).get();
                        ClientEvent.of("acknowledged").with("topic", stored.topic()).with("partition", stored.partition())
                            .with("offset", stored.offset()).with("value", values.get(record)).with("batch", number).print();
                    } catch (Exception e) {
                        ClientEvent.of("failed").with("topic", topics.get(index)).with("partition", partitions.get(index))
                            .with("value", values.get(record)).with("batch", number).error(e).print();
                    }
                }
                number++;
                left--;
            }
        }
        ClientEvent.of("stopped").print();
    }
}
