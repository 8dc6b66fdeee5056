import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;

/** What the AdminClient does and says. */
final class Cluster {
    private final Admin admin;

    Cluster(String bootstrap) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("request.timeout.ms", "5000");
        settings.put("default.api.timeout.ms", "20000");
        settings.put("metadata.max.age.ms", "1000");
        settings.put("reconnect.backoff.max.ms", "200");
        admin = Admin.create(settings);
    }

    /** replicas: for each partition the broker ids, the preferred leader first. */
    JsonNode create(JsonNode question) throws Exception {
        Map<Integer, List<Integer>> assignment = new HashMap<>();
        for (JsonNode brokers : question.get("replicas")) {
            assignment.put(assignment.size(), integers(brokers));
        }
        NewTopic topic = new NewTopic(question.get("topic").asText(), assignment);
        topic.configs(strings(question.get("configs")));
        admin.createTopics(List.of(topic)).all().get();
        return null;
    }

    JsonNode configure(JsonNode question) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        strings(question.get("configs")).forEach((name, value) ->
            changes.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, question.get("topic").asText());
        admin.incrementalAlterConfigs(Map.of(topic, changes)).all().get();
        return null;
    }

    JsonNode delete(JsonNode question) throws Exception {
        admin.deleteTopics(List.of(question.get("topic").asText())).all().get();
        return null;
    }

    JsonNode deleteRecords(JsonNode question) throws Exception {
        RecordsToDelete before = RecordsToDelete.beforeOffset(question.get("before").asLong());
        admin.deleteRecords(Map.of(partition(question), before)).all().get();
        return null;
    }

    /** Makes a broker the preferred leader, and then the leader. The broker must be a replica in sync. */
    JsonNode lead(JsonNode question) throws Exception {
        TopicPartition partition = partition(question);
        int leader = question.get("leader").asInt();
        TopicDescription topic = admin.describeTopics(List.of(partition.topic())).allTopicNames().get().get(partition.topic());
        List<Integer> replicas = new ArrayList<>(List.of(leader));
        for (Node replica : topic.partitions().get(partition.partition()).replicas()) {
            if (replica.id() != leader) {
                replicas.add(replica.id());
            }
        }
        admin.alterPartitionReassignments(Map.of(partition, Optional.of(new NewPartitionReassignment(replicas)))).all().get();
        try {
            admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).all().get();
        } catch (ExecutionException e) {
            if (!(e.getCause() instanceof ElectionNotNeededException)) {
                throw e;
            }
        }
        return null;
    }

    /** Every topic, internal ones included: name, id, and for each partition its leader (-1: none) and replicas in sync. */
    JsonNode topics() throws Exception {
        Set<String> names = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
        ArrayNode all = StockClient.JSON.createArrayNode();
        for (TopicDescription topic : admin.describeTopics(names).allTopicNames().get().values()) {
            ObjectNode shown = all.addObject();
            shown.put("name", topic.name());
            shown.put("id", topic.topicId().toString());
            ArrayNode partitions = shown.putArray("partitions");
            for (TopicPartitionInfo info : topic.partitions()) {
                ObjectNode partition = partitions.addObject();
                partition.put("leader", info.leader() == null ? -1 : info.leader().id());
                ArrayNode inSync = partition.putArray("in_sync");
                info.isr().forEach(node -> inSync.add(node.id()));
            }
        }
        return all;
    }

    JsonNode groups() throws Exception {
        ArrayNode all = StockClient.JSON.createArrayNode();
        for (GroupListing group : admin.listGroups().all().get()) {
            all.add(group.groupId());
        }
        return all;
    }

    /**
     * ListOffsets. Each partition comes with as many queries: a timestamp, or -1 latest, -2 earliest, -3 greatest timestamp,
     * -4 earliest local, -5 latest tiered. One request round asks the n-th query of every partition.
     */
    JsonNode offsets(JsonNode question) throws Exception {
        ListOffsetsOptions options = new ListOffsetsOptions(
            IsolationLevel.valueOf(question.get("isolation").asText().toUpperCase()));
        ArrayNode answers = StockClient.JSON.createArrayNode();
        JsonNode asked = question.get("partitions");
        for (int i = 0; i < asked.size(); i++) {
            answers.addArray();
        }
        for (int round = 0; asked.size() > 0 && round < asked.get(0).get("queries").size(); round++) {
            Map<TopicPartition, OffsetSpec> specs = new HashMap<>();
            for (JsonNode p : asked) {
                specs.put(partition(p), spec(p.get("queries").get(round).asLong()));
            }
            ListOffsetsResult result = admin.listOffsets(specs, options);
            for (int i = 0; i < asked.size(); i++) {
                ListOffsetsResult.ListOffsetsResultInfo info = result.partitionResult(partition(asked.get(i))).get();
                ObjectNode found = ((ArrayNode) answers.get(i)).addObject();
                found.put("offset", info.offset());
                found.put("timestamp", info.timestamp());
                found.put("leader_epoch", info.leaderEpoch().orElse(-1));
            }
        }
        return answers;
    }

    private static OffsetSpec spec(long query) {
        if (query == -1) return OffsetSpec.latest();
        if (query == -2) return OffsetSpec.earliest();
        if (query == -3) return OffsetSpec.maxTimestamp();
        if (query == -4) return OffsetSpec.earliestLocal();
        if (query == -5) return OffsetSpec.latestTiered();
        return OffsetSpec.forTimestamp(query);
    }

    static TopicPartition partition(JsonNode question) {
        return new TopicPartition(question.get("topic").asText(), question.get("partition").asInt());
    }

    private static List<Integer> integers(JsonNode list) {
        List<Integer> all = new ArrayList<>();
        list.forEach(n -> all.add(n.asInt()));
        return all;
    }

    static Map<String, String> strings(JsonNode object) {
        Map<String, String> all = new HashMap<>();
        object.properties().forEach(field -> all.put(field.getKey(), field.getValue().asText()));
        return all;
    }
}
