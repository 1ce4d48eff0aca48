import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** An answer that a client got, as a line of JSON on stdout. The log of the client library goes elsewhere. */
final class ClientEvent {
    private final Map<String, Object> fields = new LinkedHashMap<>();

    private ClientEvent(String event) {
        fields.put("event", event);
    }

    static ClientEvent of(String name) {
        return new ClientEvent(name);
    }

    ClientEvent with(String name, Object value) {
        fields.put(name, value);
        return this;
    }

    /** The class of what the cluster answered, without the wrappers of futures. */
    ClientEvent error(Throwable thrown) {
        Throwable cause = thrown;
        while (cause instanceof java.util.concurrent.ExecutionException && cause.getCause() != null) {
            cause = cause.getCause();
        }
        return with("error", cause.getClass().getSimpleName()).with("message", String.valueOf(cause.getMessage()));
    }

    void print() {
        synchronized (System.out) {
            System.out.println(json(fields));
            System.out.flush();
        }
    }

    private static String json(Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        StringBuilder out = new StringBuilder();
        if (value instanceof Map) {
            String comma = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                out.append(comma).append(json(String.valueOf(entry.getKey()))).append(':').append(json(entry.getValue()));
                comma = ",";
            }
            return out.length() == 0 ? "{}" : out.append('}').toString();
        }
        if (value instanceof List) {
            String comma = "[";
            for (Object item : (List<?>) value) {
                out.append(comma).append(json(item));
                comma = ",";
            }
            return out.length() == 0 ? "[]" : out.append(']').toString();
        }
        out.append('"');
        for (char c : value.toString().toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20 || c > 0x7e) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
