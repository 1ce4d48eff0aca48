import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Properties;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Commands on stdin, one a line. The end of stdin is the command `stop`: no client outlives its driver. */
final class Commands {
    private final LinkedBlockingQueue<String> lines = new LinkedBlockingQueue<>();

    Commands() {
        Thread reader = new Thread(() -> {
            try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in))) {
                for (String line = in.readLine(); line != null; line = in.readLine()) {
                    lines.add(line.trim());
                }
            } catch (IOException e) {
                // as the end of stdin
            }
            lines.add("stop");
        });
        reader.setDaemon(true);
        reader.start();
    }

    /** The next command; null if there is none within these milliseconds. */
    String[] next(long millis) throws InterruptedException {
        String line = lines.poll(millis, TimeUnit.MILLISECONDS);
        return line == null ? null : line.split(" ");
    }

    /** Settings of a client from arguments `name=value`. */
    static Properties settings(String[] arguments, int from) {
        Properties settings = new Properties();
        for (int i = from; i < arguments.length; i++) {
            int equals = arguments[i].indexOf('=');
            settings.put(arguments[i].substring(0, equals), arguments[i].substring(equals + 1));
        }
        return settings;
    }
}
