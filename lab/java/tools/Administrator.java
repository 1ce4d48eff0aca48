import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;

/** Administrator name=value...: answers each command with one line. Replicas are written as 1,2/2,3: a list for each partition. */
public final class Administrator {
    public static void main(String[] arguments) throws Exception {
        Commands commands = new Commands();
        try (Admin admin = Admin.create(Commands.settings(arguments, 0))) {
            ClientEvent.of("started").print();
            while (true) {
                String[] command = commands.next(1000);
                if (command == null) {
                    continue;
                }
                if (command[0].equals("stop")) {
                    break;
                }
                ClientEvent answer = ClientEvent.of("answer").with("command", String.join(" ", command));
                try {
                    answer(admin, command, answer);
                } catch (Exception e) {
                    answer.error(e);
                }
                answer.print();
            }
        }
        ClientEvent.of("stopped").print();
    }

    private static void answer(Admin admin, String[] command, ClientEvent answer) throws Exception {
        switch (command[0]) {
            case "cluster":
                answer.with("cluster_id", admin.describeCluster().clusterId().get());
                answer.with("nodes", ids(admin.describeCluster().nodes().get()));
                Node controller = admin.describeCluster().controller().get();
                answer.with("controller", controller == null ? null : controller.id());
                break;
            case "quorum":
                answer.with("leader", admin.describeMetadataQuorum().quorumInfo().get().leaderId());
                answer.with("leader_epoch", admin.describeMetadataQuorum().quorumInfo().get().leaderEpoch());
                break;
            case "create":
                Map<Integer, List<Integer>> replicas = new TreeMap<>();
                for (String list : command[2].split("/")) {
                    replicas.put(replicas.size(), numbers(list));
                }
                Map<String, String> configs = new HashMap<>();
                Commands.settings(command, 3).forEach((name, value) -> configs.put(name.toString(), value.toString()));
                admin.createTopics(Collections.singleton(new NewTopic(command[1], replicas).configs(configs))).all().get();
                break;
            case "upgrade":
                short level = command[2].equals("latest")
                    ? admin.describeFeatures().featureMetadata().get().supportedFeatures().get(command[1]).maxVersion()
                    : Short.parseShort(command[2]);
                FeatureUpdate update = new FeatureUpdate(level, FeatureUpdate.UpgradeType.UPGRADE);
                admin.updateFeatures(Collections.singletonMap(command[1], update), new UpdateFeaturesOptions()).all().get();
                break;
            case "delete":
                admin.deleteTopics(Collections.singleton(command[1])).all().get();
                break;
            case "unregister":
                admin.unregisterBroker(Integer.parseInt(command[1])).all().get();
                break;
            case "delete-records":
                TopicPartition truncated = partition(command[1], command[2]);
                Map<TopicPartition, RecordsToDelete> before = Collections.singletonMap(
                    truncated, RecordsToDelete.beforeOffset(Long.parseLong(command[3])));
                answer.with("low_watermark", admin.deleteRecords(before).lowWatermarks().get(truncated).get().lowWatermark());
                break;
            case "describe":
                TopicDescription topic = admin.describeTopics(Collections.singleton(command[1])).allTopicNames().get().get(command[1]);
                answer.with("topic_id", topic.topicId().toString());
                List<Object> partitions = new ArrayList<>();
                topic.partitions().forEach(one -> {
                    Map<String, Object> state = new TreeMap<>();
                    state.put("leader", one.leader() == null ? -1 : one.leader().id());
                    state.put("isr", ids(one.isr()));
                    state.put("replicas", ids(one.replicas()));
                    partitions.add(state);
                });
                answer.with("partitions", partitions);
                break;
            case "elect":
                ElectionType type = command[1].equals("unclean") ? ElectionType.UNCLEAN : ElectionType.PREFERRED;
                admin.electLeaders(type, Collections.singleton(partition(command[2], command[3]))).all().get();
                break;
            case "reassign":
                Optional<NewPartitionReassignment> target = Optional.of(new NewPartitionReassignment(numbers(command[3])));
                admin.alterPartitionReassignments(Collections.singletonMap(partition(command[1], command[2]), target)).all().get();
                break;
            case "end-transaction":
                TopicPartition marked = partition(command[1], command[2]);
                ProducerState last = admin.describeProducers(Collections.singleton(marked)).partitionResult(marked).get()
                    .activeProducers().stream().max(Comparator.comparing(one -> one.coordinatorEpoch().orElse(-1))).get();
                int coordinatorEpoch = last.coordinatorEpoch().getAsInt() + Integer.parseInt(command[3]);
                answer.with("producer_id", last.producerId()).with("coordinator_epoch", coordinatorEpoch);
                admin.abortTransaction(
                    new AbortTransactionSpec(marked, last.producerId(), (short) last.producerEpoch(), coordinatorEpoch)).all().get();
                break;
            case "reassigning":
                answer.with("partitions", admin.listPartitionReassignments().reassignments().get().size());
                break;
            default:
                throw new IllegalArgumentException(command[0]);
        }
    }

    private static TopicPartition partition(String topic, String index) {
        return new TopicPartition(topic, Integer.parseInt(index));
    }

    private static List<Integer> numbers(String list) {
        List<Integer> numbers = new ArrayList<>();
        for (String one : list.split(",")) {
            numbers.add(Integer.valueOf(one));
        }
        return numbers;
    }

    private static List<Integer> ids(java.util.Collection<Node> nodes) {
        return nodes.stream().map(Node::id).collect(Collectors.toList());
    }
}
