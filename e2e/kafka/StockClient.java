import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutionException;

/**
 * Kafka's own clients, driven over standard input and output: one JSON object a line asks, one JSON object a line answers,
 * in the same order. {"do": NAME, ...} is answered by {"result": ...} or {"error": CLASS, "message": TEXT}. One process holds
 * its producers (and so their open transactions) until its input ends, when it halts without closing them: closing would
 * abort what is open.
 */
public final class StockClient {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        // Whatever prints to standard output by mistake must not get between the answers.
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Cluster cluster = new Cluster(bootstrap);
        Writer writer = new Writer(bootstrap);
        Reader reader = new Reader(bootstrap);
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = questions.readLine()) != null; ) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                JsonNode question = JSON.readTree(line);
                answer.set("result", answer(question, cluster, writer, reader));
            } catch (Exception e) {
                Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
                answer.put("error", cause.getClass().getSimpleName());
                answer.put("message", String.valueOf(cause.getMessage()));
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static JsonNode answer(JsonNode question, Cluster cluster, Writer writer, Reader reader) throws Exception {
        switch (question.get("do").asText()) {
            case "create": return cluster.create(question);
            case "configure": return cluster.configure(question);
            case "delete": return cluster.delete(question);
            case "delete-records": return cluster.deleteRecords(question);
            case "lead": return cluster.lead(question);
            case "topics": return cluster.topics();
            case "groups": return cluster.groups();
            case "offsets": return cluster.offsets(question);
            case "send": return writer.send(question);
            case "begin": return writer.begin(question);
            case "commit": return writer.commit(question);
            case "abort": return writer.abort(question);
            case "consume": return reader.consume(question);
            default: throw new IllegalArgumentException("no such question: " + question.get("do"));
        }
    }
}
