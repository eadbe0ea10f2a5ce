import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's own command line tools one after the other in one JVM, because a JVM costs more than a tool's work.
 * A request is a line of base64 words: class, standard input, arguments. The answer: exit code, output, errors.
 */
public class ToolServer {
    static class Exited extends RuntimeException {
        Exited(int code, String message) {
            super(code + " " + message);
        }
    }

    static String decode(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    static String encode(ByteArrayOutputStream bytes) {
        return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }

    static Integer exitCode; // the first that a tool asks for: some catch what ends them and ask again

    static final List<Runnable> hooks = new ArrayList<>(); // the console producer flushes in one

    static void exit(int code, String message) {
        if (exitCode == null) exitCode = code;
        throw new Exited(code, message);
    }

    static int run(String tool, String[] arguments) throws Exception {
        exitCode = null;
        hooks.clear();
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException wrapped) {
            if (exitCode == null) {
                wrapped.getCause().printStackTrace();
                return 1;
            }
        } catch (ClassNotFoundException | NoSuchMethodException missing) {
            missing.printStackTrace(); // of a tool that another version of Kafka has elsewhere
            return 1;
        } finally {
            for (Runnable hook : hooks) hook.run();
        }
        return exitCode == null ? 0 : exitCode;
    }

    public static void main(String[] ignored) throws Exception {
        Exit.setExitProcedure(ToolServer::exit);
        Exit.setHaltProcedure(ToolServer::exit);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        PrintStream answers = System.out;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        answers.println("ready");
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = line.split(" ", -1);
            String[] arguments = new String[words.length - 2];
            for (int n = 0; n < arguments.length; n++) arguments[n] = decode(words[n + 2]);
            ByteArrayOutputStream out = new ByteArrayOutputStream(), err = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(Base64.getDecoder().decode(words[1])));
            System.setOut(new PrintStream(out, true));
            System.setErr(new PrintStream(err, true));
            int code = run(decode(words[0]), arguments);
            System.out.flush();
            answers.println(code + " " + encode(out) + " " + encode(err));
            answers.flush();
        }
    }
}
