import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** What a consumer without a group reads. */
final class Reader {
    // No partition of the tests takes longer; a consumer that does is stuck.
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private final String bootstrap;

    Reader(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    /**
     * Reads one partition from an offset (-2: the log's start) to the end of the moment: the high watermark, or for
     * read_committed the last stable offset. An offset that is out of range is an error.
     */
    JsonNode consume(JsonNode question) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", question.get("isolation").asText());
        settings.put("auto.offset.reset", "none");
        settings.put("enable.auto.commit", "false");
        settings.put("allow.auto.create.topics", "false");
        settings.put("max.poll.records", "10000");
        settings.put("fetch.max.wait.ms", "20");
        TopicPartition partition = Cluster.partition(question);
        long from = question.get("from").asLong();
        ArrayNode records = StockClient.JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            long start = from == -2 ? consumer.beginningOffsets(List.of(partition)).get(partition) : from;
            consumer.seek(partition, start);
            long giveUp = System.nanoTime() + PATIENCE.toNanos();
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    if (record.offset() < end) {
                        show(records.addObject(), record);
                    }
                }
                if (System.nanoTime() - giveUp > 0) {
                    throw new TimeoutException(partition + " stays at " + consumer.position(partition) + " of " + end);
                }
            }
        }
        return records;
    }

    private static void show(ObjectNode shown, ConsumerRecord<byte[], byte[]> record) {
        shown.put("offset", record.offset());
        shown.put("timestamp", record.timestamp());
        shown.put("timestamp_type", record.timestampType() == org.apache.kafka.common.record.TimestampType.LOG_APPEND_TIME
            ? "LOG_APPEND_TIME" : "CREATE_TIME");
        shown.put("leader_epoch", record.leaderEpoch().orElse(-1));
        shown.put("key", record.key());
        shown.put("value", record.value());
        ArrayNode headers = shown.putArray("headers");
        for (Header header : record.headers()) {
            headers.addObject().put("key", header.key()).put("value", header.value());
        }
    }
}
