import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * RawRequests FIRST_CORRELATION_ID NODES METADATA_LOG: requests of any API and version, as only nodes send them, with their answers. NODES
 * as 1@9092,2@9093.
 *
 * <p>Commands: `send NAME NODE CLIENT API VERSION JSON` with the fields by the names of Kafka's schemas, and without blanks; `state`, what
 * the metadata log's file holds by now (`MetadataState`); `stop`. Schemas serve instead of the classes of messages, which have other fields
 * in each release. Each client has a connection to each node, and a broker's heartbeats have one of their own, on which correlation ids have
 * no gap; so have these. No two requests have the same correlation id.
 */
public final class RawRequests {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int OF_EACH_CONNECTION = 10000; // so many correlation ids

    private final int first;
    private final Map<Integer, Integer> ports = new TreeMap<>();
    private final Map<String, Connection> connections = new HashMap<>();

    private RawRequests(int first, String nodes) {
        this.first = first;
        for (String node : nodes.split(",")) {
            String[] parts = node.split("@");
            ports.put(Integer.valueOf(parts[0]), Integer.valueOf(parts[1]));
        }
    }

    /** Where the command `state` looks. */
    interface State {
        void print() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Path metadataLog = Paths.get(arguments[2]);
        serve(Integer.parseInt(arguments[0]), arguments[1], () -> MetadataState.read(metadataLog).print());
    }

    /** Follow the commands until `stop`. */
    static void serve(int first, String nodes, State state) throws Exception {
        RawRequests sender = new RawRequests(first, nodes);
        Commands commands = new Commands();
        ClientEvent.of("started").print();
        while (true) {
            String[] command = commands.next(1000);
            if (command == null) {
                continue;
            }
            if (command[0].equals("stop")) {
                break;
            }
            if (command[0].equals("state")) {
                state.print();
            } else {
                sender.send(command[1], Integer.parseInt(command[2]), command[3], ApiKeys.valueOf(command[4]), Short.parseShort(command[5]),
                    JSON.readTree(command[6]));
            }
        }
        for (Connection connection : sender.connections.values()) {
            connection.close();
        }
        ClientEvent.of("stopped").print();
    }

    private Connection connection(int node, String client, boolean ofHeartbeats) throws IOException {
        String name = node + " " + client + " " + ofHeartbeats;
        if (!connections.containsKey(name)) {
            connections.put(name, new Connection(ports.get(node), client, first + OF_EACH_CONNECTION * connections.size()));
        }
        return connections.get(name);
    }

    private void send(String name, int id, String client, ApiKeys api, short version, JsonNode fields) throws Exception {
        Connection node = connection(id, client, api == ApiKeys.BROKER_HEARTBEAT || api == ApiKeys.BROKER_REGISTRATION);
        ApiMessageType type = ApiMessageType.fromApiKey(api.id);
        Struct request = struct(type.requestSchemas()[version], fields);
        ByteBuffer body = ByteBuffer.allocate(request.sizeOf());
        request.writeTo(body);
        ByteBuffer answer = node.answer(api.id, version, body).buffer();
        List<Object> codes = new ArrayList<>();
        Object response = plain(type.responseSchemas()[version].read(answer), codes);
        Object error = codes.stream().filter(code -> !code.equals(0)).findFirst().orElse(0);
        ClientEvent.of(error.equals(0) ? "answered" : "refused").with("command", api.name()).with("name", name).with("version", version)
            .with("node", id).with("correlation_id", node.correlationId()).with("error", String.valueOf(error)).with("codes", codes)
            .with("response", response).print();
    }

    private static Struct struct(Schema schema, JsonNode fields) {
        Struct made = new Struct(schema);
        for (BoundField field : schema.fields()) {
            JsonNode value = fields.get(field.def.name);
            if (field.def.type instanceof TaggedFields) {
                made.set(field, new TreeMap<Integer, Object>());
            } else if (value == null) {
                throw new IllegalArgumentException(field.def.name + " is missing");
            } else {
                made.set(field, value(field.def.type, value));
            }
        }
        return made;
    }

    private static Object value(Type type, JsonNode node) {
        if (node.isNull()) {
            return null;
        }
        if (type.isArray()) {
            List<Object> items = new ArrayList<>();
            node.forEach(item -> items.add(value(type.arrayElementType().get(), item)));
            return items.toArray();
        }
        if (type instanceof Schema) {
            return struct((Schema) type, node);
        }
        if (type == Type.INT8) {
            return (byte) node.intValue();
        }
        if (type == Type.INT16) {
            return (short) node.intValue();
        }
        if (type == Type.INT32 || type == Type.UINT16) {
            return node.intValue();
        }
        if (type == Type.INT64) {
            return node.longValue();
        }
        if (type == Type.BOOLEAN) {
            return node.booleanValue();
        }
        return type == Type.UUID ? Uuid.fromString(node.textValue()) : node.textValue();
    }

    /** A value of the answer as ClientEvent prints it; error codes are listed in their order. */
    private static Object plain(Object value, List<Object> codes) {
        if (value instanceof Struct) {
            Map<String, Object> fields = new LinkedHashMap<>();
            for (BoundField field : ((Struct) value).schema().fields()) {
                Object one = plain(((Struct) value).get(field), codes);
                if (field.def.name.equals("error_code")) {
                    codes.add(((Number) one).intValue());
                }
                if (!(field.def.type instanceof TaggedFields)) {
                    fields.put(field.def.name, one);
                }
            }
            return fields;
        }
        if (value instanceof Object[]) {
            List<Object> items = new ArrayList<>();
            for (Object item : (Object[]) value) {
                items.add(plain(item, codes));
            }
            return items;
        }
        return value instanceof Number || value instanceof Boolean || value == null ? value : value.toString();
    }
}
