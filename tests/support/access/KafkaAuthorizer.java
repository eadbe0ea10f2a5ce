import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Runs Kafka's own authorizer. A request is a line of JSON: settings, acls, questions and filters. The answer: verdicts
 * (on the named resource, on any resource of the type), and for each filter the numbers of the ACLs that it names.
 */
public class KafkaAuthorizer {
    static final ObjectMapper JSON = new ObjectMapper();

    record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() {
            return "PLAINTEXT";
        }

        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        public int requestType() {
            return 0;
        }

        public int requestVersion() {
            return 0;
        }

        public String clientId() {
            return "";
        }

        public int correlationId() {
            return 0;
        }
    }

    static byte code(JsonNode row, int column) {
        return (byte) row.get(column).asInt();
    }

    static String text(JsonNode row, int column) {
        return row.get(column).isNull() ? null : row.get(column).asText();
    }

    static StandardAcl acl(JsonNode row) {
        return new StandardAcl(ResourceType.fromCode(code(row, 0)), text(row, 1), PatternType.fromCode(code(row, 2)),
            text(row, 3), text(row, 4), AclOperation.fromCode(code(row, 5)), AclPermissionType.fromCode(code(row, 6)));
    }

    static ObjectNode answer(JsonNode request) throws Exception {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.configure(Map.of(
            StandardAuthorizer.SUPER_USERS_CONFIG, request.get("super_users").asText(),
            StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG, request.get("allow_everyone").asText()));
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        Map<Object, Integer> numbers = new HashMap<>();
        for (JsonNode row : request.get("acls")) {
            StandardAcl acl = acl(row);
            numbers.put(acl.toBinding(), numbers.size());
            acls.put(Uuid.randomUuid(), acl);
        }
        authorizer.loadSnapshot(acls);
        authorizer.completeInitialLoad();
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode verdicts = answer.putArray("verdicts");
        for (JsonNode row : request.get("questions")) {
            String[] principal = text(row, 0).split(":", 2);
            Context context = new Context(new KafkaPrincipal(principal[0], principal[1]), InetAddress.getByName(text(row, 1)));
            AclOperation operation = AclOperation.fromCode(code(row, 2));
            ResourceType type = ResourceType.fromCode(code(row, 3));
            Action action = new Action(operation, new ResourcePattern(type, text(row, 4), PatternType.LITERAL), 1, false, false);
            verdicts.addArray()
                .add(authorizer.authorize(context, List.of(action)).get(0) == AuthorizationResult.ALLOWED)
                .add(authorizer.authorizeByResourceType(context, operation, type) == AuthorizationResult.ALLOWED);
        }
        ArrayNode found = answer.putArray("found");
        for (JsonNode row : request.get("filters")) {
            ArrayNode named = found.addArray();
            authorizer.acls(new AclBindingFilter(
                new ResourcePatternFilter(ResourceType.fromCode(code(row, 0)), text(row, 1), PatternType.fromCode(code(row, 2))),
                new AccessControlEntryFilter(text(row, 3), text(row, 4), AclOperation.fromCode(code(row, 5)),
                    AclPermissionType.fromCode(code(row, 6))))).forEach(binding -> named.add(numbers.get(binding)));
        }
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
