import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Producers by name, each made with the settings that its first question brings. */
final class Writer {
    private final String bootstrap;
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    Writer(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    /** Sends records to one partition as one batch, and gives their offsets. */
    JsonNode send(JsonNode question) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producer(question);
        TopicPartition partition = Cluster.partition(question);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode r : question.get("records")) {
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(partition.topic(), partition.partition(),
                r.get("timestamp").asLong(), bytes(r.get("key")), bytes(r.get("value")));
            for (JsonNode header : r.get("headers")) {
                record.headers().add(header.get("key").asText(), bytes(header.get("value")));
            }
            sent.add(producer.send(record));
        }
        producer.flush(); // the linger is endless: a batch ends here
        ArrayNode offsets = StockClient.JSON.createArrayNode();
        for (Future<RecordMetadata> one : sent) {
            offsets.add(one.get().offset());
        }
        return offsets;
    }

    JsonNode begin(JsonNode question) {
        producer(question).beginTransaction();
        return null;
    }

    JsonNode commit(JsonNode question) {
        producer(question).commitTransaction();
        return null;
    }

    JsonNode abort(JsonNode question) {
        producer(question).abortTransaction();
        return null;
    }

    private KafkaProducer<byte[], byte[]> producer(JsonNode question) {
        return producers.computeIfAbsent(question.get("producer").asText(), name -> {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", bootstrap);
            settings.put("batch.size", String.valueOf(8 << 20));
            settings.put("max.request.size", String.valueOf(8 << 20));
            settings.put("linger.ms", "600000");
            settings.put("delivery.timeout.ms", "700000");
            settings.put("metadata.max.age.ms", "1000");
            settings.put("reconnect.backoff.max.ms", "200");
            settings.put("enable.idempotence", "false");
            settings.putAll(Cluster.strings(question.get("settings")));
            KafkaProducer<byte[], byte[]> made =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
            if (settings.containsKey("transactional.id")) {
                made.initTransactions();
            }
            return made;
        });
    }

    private static byte[] bytes(JsonNode base64) throws IOException {
        return base64.isNull() ? null : base64.binaryValue();
    }
}
