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
        Told.event("started").with("acks", "all").print();
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
                        Told.event("sent").with("topic", command[1]).with("partition", partition).with("value", value).print();
                        try {
                            RecordMetadata kept = producer.send(new ProducerRecord<>(command[1], partition, null, value)).get();
                            Told.event("acknowledged").with("topic", kept.topic()).with("partition", kept.partition())
                                .with("offset", kept.offset()).with("value", value).print();
                        } catch (Exception e) {
                            Told.event("failed").with("topic", command[1]).with("partition", partition).with("value", value).error(e).print();
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
                Told.event("done").with("command", command[0]).print();
            } catch (Exception e) {
                Told.event("refused").with("command", command[0]).error(e).print();
            }
        }
        producer.close(java.time.Duration.ofSeconds(2));
        Told.event("stopped").print();
    }
}
