import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactions name=value...: a transactional producer. Commands: `init`, `begin`, `send TOPIC PARTITION`, `commit`, `abort`, `stop`. */
public final class Transactions {
    public static void main(String[] arguments) throws Exception {
        Properties settings = Commands.settings(arguments, 0);
        String client = settings.getProperty("client.id");
        Commands commands = new Commands();
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        ClientEvent.of("started").with("acks", "all").print();
        for (long number = 0; ; ) {
            String[] command = commands.next(1000);
            if (command == null) {
                continue;
            }
            if (command[0].equals("stop")) {
                break;
            }
            try {
                switch (command[0]) {
                    case "init":
                        producer.initTransactions();
                        break;
                    case "begin":
                        producer.beginTransaction();
                        break;
                    case "send":
                        String value = client + "-" + number++;
                        int partition = Integer.parseInt(command[2]);
                        ClientEvent.of("sent").with("topic", command[1]).with("partition", partition).with("value", value).print();
                        try {
                            RecordMetadata stored = producer.send(new ProducerRecord<>(command[1], partition, null, value)).get();
                            ClientEvent.of("acknowledged").with("topic", stored.topic()).with("partition", stored.partition())
                                .with("offset", stored.offset()).with("value", value).print();
                        } catch (Exception e) {
                            ClientEvent.of("failed").with("topic", command[1]).with("partition", partition).with("value", value).error(e).print();
                            throw e;
                        }
                        break;
                    case "commit":
                        producer.commitTransaction();
                        break;
                    default:
                        producer.abortTransaction();
                        break;
                }
                ClientEvent.of("done").with("command", command[0]).print();
            } catch (Exception e) {
                ClientEvent.of("refused").with("command", command[0]).error(e).print();
            }
        }
        producer.close(java.time.Duration.ofSeconds(2));
        ClientEvent.of("stopped").print();
    }
}
