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
        this.broker = new Socket("127.0.0.1", port);
        this.client = client;
        broker.setSoTimeout(10000);
    }

    /** Send a request, and return its answer, still to be read. */
    ByteBufferAccessor answer(ApiMessage request, short version) throws IOException {
        ApiMessageType type = ApiMessageType.fromApiKey(request.apiKey());
        short headerVersion = type.requestHeaderVersion(version);
        RequestHeaderData header = new RequestHeaderData().setRequestApiKey(request.apiKey()).setRequestApiVersion(version)
            .setCorrelationId(++correlationId).setClientId(client);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int size = header.size(cache, headerVersion) + request.size(cache, version);
        ByteBuffer sent = ByteBuffer.allocate(Integer.BYTES + size);
        sent.putInt(size);
        ByteBufferAccessor writer = new ByteBufferAccessor(sent);
        header.write(writer, cache, headerVersion);
        request.write(writer, cache, version);
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

    @Override
    public void close() throws IOException {
        broker.close();
    }
}
