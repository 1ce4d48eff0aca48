import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * ShareMember TOPICS name=value...: a member of a share group, which acknowledges records only on command.
 *
 * <p>It prints what it acquires, and does not ask for more until it has acknowledged all of it. Commands: `acknowledge`, `follow` (from
 * now on it acknowledges by itself), `stop`.
 */
public final class ShareMember {
    public static void main(String[] arguments) throws Exception {
        Properties settings = Commands.settings(arguments, 1);
        Commands commands = new Commands();
        readFromTheBeginning(settings);
        try (KafkaShareConsumer<String, String> member =
            new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            member.subscribe(Arrays.asList(arguments[0].split(",")));
            ClientEvent.of("started").print();
            work(member, commands);
        }
        ClientEvent.of("stopped").print();
    }

    private static void readFromTheBeginning(Properties settings) throws Exception {
        Properties own = new Properties();
        own.put("bootstrap.servers", settings.get("bootstrap.servers"));
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, settings.getProperty("group.id"));
        try (Admin admin = Admin.create(own)) {
            admin.incrementalAlterConfigs(Map.of(group, List.of(
                new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET)))).all().get();
        }
    }

    private static void work(KafkaShareConsumer<String, String> member, Commands commands) throws Exception {
        List<ConsumerRecord<String, String>> acquired = new ArrayList<>();
        boolean follows = false;
        while (true) {
            String[] command = commands.next(follows || acquired.isEmpty() ? 0 : 1000);
            if (command != null && command[0].equals("stop")) {
                return;
            }
            follows |= command != null && command[0].equals("follow");
            if (command != null || follows && !acquired.isEmpty()) {
                acknowledge(member, acquired);
                acquired.clear();
            }
            if (acquired.isEmpty()) {
                for (ConsumerRecord<String, String> record : member.poll(Duration.ofMillis(200))) {
                    acquired.add(record);
                    ClientEvent.of("acquired").with("topic", record.topic()).with("partition", record.partition())
                        .with("offset", record.offset()).with("value", record.value())
                        .with("delivery_count", record.deliveryCount().orElse(null)).print();
                }
            }
        }
    }

    private static void acknowledge(KafkaShareConsumer<String, String> member, List<ConsumerRecord<String, String>> acquired) {
        ClientEvent refused = null;
        try {
            acquired.forEach(member::acknowledge);
            for (Optional<KafkaException> error : member.commitSync().values()) {
                if (error.isPresent()) {
                    refused = ClientEvent.of("refused").with("command", "acknowledge").error(error.get());
                }
            }
        } catch (KafkaException | IllegalStateException e) {
            refused = ClientEvent.of("refused").with("command", "acknowledge").error(e);
        }
        (refused == null ? ClientEvent.of("done").with("command", "acknowledge").with("records", acquired.size()) : refused).print();
    }
}
