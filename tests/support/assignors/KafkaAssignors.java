import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Runs Kafka's own assignors. A request is a line of JSON: assignor, rounds, topics (partitions by topic number) and members
 * (subscribed, assigned). The answer: the partitions of each member, and the nanoseconds of CPU of the fastest round.
 */
public class KafkaAssignors {
    static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean(); // CPU: other processes do not count
    static final ObjectMapper JSON = new ObjectMapper();
    static final Map<String, ConsumerGroupPartitionAssignor> ASSIGNORS =
        Map.of("uniform", new UniformAssignor(), "range", new RangeAssignor());

    static Uuid topicId(String number) {
        return new Uuid(7, Long.parseLong(number));
    }

    static class Topics implements SubscribedTopicDescriber {
        final Map<Uuid, Integer> partitions = new HashMap<>();

        public int numPartitions(Uuid topicId) {
            return partitions.getOrDefault(topicId, -1);
        }

        public Set<String> racksForPartition(Uuid topicId, int partition) {
            throw new UnsupportedOperationException("no assignor of Kafka 4 asks for racks");
        }
    }

    static GroupSpecImpl group(JsonNode request) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        request.get("members").properties().forEach(member -> {
            Set<Uuid> subscribed = new HashSet<>();
            member.getValue().get("subscribed").forEach(number -> subscribed.add(topicId(number.asText())));
            subscriptions.add(subscribed);
            Map<Uuid, Set<Integer>> assigned = new HashMap<>();
            member.getValue().get("assigned").properties().forEach(topic -> {
                Set<Integer> partitions = new HashSet<>();
                topic.getValue().forEach(partition -> {
                    partitions.add(partition.asInt());
                    owners.computeIfAbsent(topicId(topic.getKey()), id -> new HashMap<>())
                        .put(partition.asInt(), member.getKey());
                });
                assigned.put(topicId(topic.getKey()), Collections.unmodifiableSet(partitions));
            });
            members.put(member.getKey(), new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), subscribed, new Assignment(Collections.unmodifiableMap(assigned))));
        });
        SubscriptionType type = subscriptions.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        return new GroupSpecImpl(members, type, owners);
    }

    static ObjectNode answer(JsonNode request) {
        ConsumerGroupPartitionAssignor assignor = ASSIGNORS.get(request.get("assignor").asText());
        GroupSpecImpl group = group(request);
        Topics topics = new Topics();
        request.get("topics").properties().forEach(
            topic -> topics.partitions.put(topicId(topic.getKey()), topic.getValue().asInt()));
        GroupAssignment assignment = null;
        long fastest = Long.MAX_VALUE;
        for (int round = 0; round < request.get("rounds").asInt(); round++) {
            long begin = THREADS.getCurrentThreadCpuTime();
            assignment = assignor.assign(group, topics);
            fastest = Math.min(fastest, THREADS.getCurrentThreadCpuTime() - begin);
        }
        ObjectNode answer = JSON.createObjectNode().put("nanoseconds", fastest);
        ObjectNode members = answer.putObject("members");
        assignment.members().forEach((id, member) -> {
            ObjectNode held = members.putObject(id);
            member.partitions().forEach((topic, partitions) -> {
                if (!partitions.isEmpty())
                    partitions.forEach(held.withArray("/" + topic.getLeastSignificantBits())::add);
            });
        });
        return answer;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = requests.readLine()) != null; ) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
            System.out.flush();
        }
    }
}
