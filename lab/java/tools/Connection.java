import java.io.DataInputStream;
import java.io.IOException;
import java.net.Socket;
import java.nio.ByteBuffer;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Single requests to a broker, as no client of Kafka sends them on purpose. */
final class Connection implements AutoCloseable {
    private final Socket broker;
    private final String client;
    private int correlationId;

    Connection(int port, String client) throws IOException {
        this(port, client, 1);
    }

    /** correlationId: that of the first request. */
    Connection(int port, String client, int correlationId) throws IOException {
        this.broker = new Socket("127.0.0.1", port);
        this.client = client;
        this.correlationId = correlationId - 1;
        broker.setSoTimeout(10000);
    }

    /** Send a request, and return its answer, still to be read. */
    ByteBufferAccessor answer(ApiMessage request, short version) throws IOException {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBufferAccessor body = new ByteBufferAccessor(ByteBuffer.allocate(request.size(cache, version)));
        request.write(body, cache, version);
        return answer(request.apiKey(), version, body.buffer());
    }

    /** The same of a request that is already written, up to the buffer's position. */
    ByteBufferAccessor answer(short apiKey, short version, ByteBuffer body) throws IOException {
        ApiMessageType type = ApiMessageType.fromApiKey(apiKey);
        short headerVersion = type.requestHeaderVersion(version);
        RequestHeaderData header = new RequestHeaderData().setRequestApiKey(apiKey).setRequestApiVersion(version)
            .setCorrelationId(++correlationId).setClientId(client);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int size = header.size(cache, headerVersion) + body.position();
        ByteBuffer sent = ByteBuffer.allocate(Integer.BYTES + size);
        sent.putInt(size);
        header.write(new ByteBufferAccessor(sent), cache, headerVersion);
        sent.put(body.array(), 0, body.position());
        broker.getOutputStream().write(sent.array());
        DataInputStream in = new DataInputStream(broker.getInputStream());
        byte[] received = new byte[in.readInt()];
        in.readFully(received);
        ByteBufferAccessor reader = new ByteBufferAccessor(ByteBuffer.wrap(received));
        int answered = new ResponseHeaderData(reader, type.responseHeaderVersion(version)).correlationId();
        if (answered != correlationId) {
            throw new IllegalStateException("the answer to " + correlationId + " has correlation id " + answered);
        }
        return reader;
    }

    /** That of the last request. */
    int correlationId() {
        return correlationId;
    }

    @Override
    public void close() throws IOException {
        broker.close();
    }
}
