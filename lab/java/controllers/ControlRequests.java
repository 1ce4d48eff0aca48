import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** ControlRequests FIRST_CORRELATION_ID NODES ZOOKEEPER_PORT: what `RawRequests` does, with the state that ZooKeeper has. */
public final class ControlRequests {
    private static final String TOPICS = "/brokers/topics";
    private static final String BROKERS = "/brokers/ids";
    private static final ObjectMapper JSON = new ObjectMapper();

    private final ZooKeeper zookeeper;

    private ControlRequests(ZooKeeper zookeeper) {
        this.zookeeper = zookeeper;
    }

    public static void main(String[] arguments) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper zookeeper = new ZooKeeper("127.0.0.1:" + arguments[2], 10000, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        if (!connected.await(20, TimeUnit.SECONDS)) {
            throw new IOException("ZooKeeper does not answer");
        }
        RawRequests.serve(Integer.parseInt(arguments[0]), arguments[1], new ControlRequests(zookeeper)::print);
        zookeeper.close();
    }

    private void print() throws Exception {
        int controllerEpoch = Integer.parseInt(new String(zookeeper.getData("/controller_epoch", false, null)));
        Map<String, Object> brokers = new TreeMap<>();
        for (String broker : zookeeper.getChildren(BROKERS, false)) {
            Stat registration = zookeeper.exists(BROKERS + "/" + broker, false);
            if (registration != null) { // the transaction that created the registration
                brokers.put(broker, Map.of("broker_epoch", registration.getCzxid()));
            }
        }
        List<Object> partitions = new ArrayList<>();
        for (String topic : zookeeper.getChildren(TOPICS, false)) {
            try {
                add(topic, partitions);
            } catch (KeeperException.NoNodeException e) {
                continue; // it is being created or deleted
            }
        }
        ClientEvent.of("state").with("controller", controller()).with("controller_epoch", controllerEpoch).with("brokers", brokers)
            .with("partitions", partitions).print();
    }

    /** -1 while there is none. */
    private int controller() throws Exception {
        try {
            return read("/controller", new Stat()).get("brokerid").asInt();
        } catch (KeeperException.NoNodeException e) {
            return -1;
        }
    }

    private void add(String topic, List<Object> partitions) throws Exception {
        JsonNode node = read(TOPICS + "/" + topic, new Stat());
        for (String partition : zookeeper.getChildren(TOPICS + "/" + topic + "/partitions", false)) {
            Stat stat = new Stat();
            JsonNode state = read(TOPICS + "/" + topic + "/partitions/" + partition + "/state", stat);
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("topic", topic);
            one.put("topic_id", node.hasNonNull("topic_id") ? node.get("topic_id").asText() : null);
            one.put("partition", Integer.valueOf(partition));
            one.put("controller_epoch", state.get("controller_epoch").asInt());
            one.put("leader", state.get("leader").asInt());
            one.put("leader_epoch", state.get("leader_epoch").asInt());
            one.put("partition_epoch", stat.getVersion());
            one.put("isr", numbers(state.get("isr")));
            one.put("replicas", numbers(node.get("partitions").get(partition)));
            partitions.add(one);
        }
    }

    private JsonNode read(String path, Stat stat) throws Exception {
        return JSON.readTree(zookeeper.getData(path, false, stat));
    }

    private static List<Integer> numbers(JsonNode list) {
        List<Integer> numbers = new ArrayList<>();
        list.forEach(one -> numbers.add(one.asInt()));
        return numbers;
    }
}
