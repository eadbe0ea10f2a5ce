// What an ACL means, in a sentence, on which topics it bears today, and as words of the tailrace command.
const TYPES = { TOPIC: "topic", GROUP: "consumer group", CLUSTER: "the cluster", TRANSACTIONAL_ID: "transactional id", DELEGATION_TOKEN: "delegation token", USER: "user" };
export const OPERATIONS = {
  TOPIC: ["READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "ALL"],
  GROUP: ["READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "ALL"],
  CLUSTER: ["CREATE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "ALL"],
  TRANSACTIONAL_ID: ["WRITE", "DESCRIBE", "ALL"],
};
const IMPLY_DESCRIBE = ["READ", "WRITE", "DELETE", "ALTER"];

const lower = (word) => word.toLowerCase().replaceAll("_", " ");

function resourceOf({ resource_type: type, resource_name: name, pattern_type: pattern }) {
  if (type === "CLUSTER") return "the cluster";
  if (pattern === "PREFIXED") return `each ${TYPES[type]} whose name begins with ${name}`;
  return name === "*" ? `each ${TYPES[type]}` : `${TYPES[type]} ${name}`;
}

export function sentenceOf(acl) {
  const from = acl.host === "*" ? "" : `, from ${acl.host}`;
  const what = acl.operation === "ALL" ? "do everything with" : `${lower(acl.operation)}:`;
  return `${acl.principal} ${acl.permission === "DENY" ? "may not" : "may"} ${what} ${resourceOf(acl)}${from}.`;
}

// What an allowed operation brings with it (Kafka's AclAuthorizer).
export function impliedBy({ operation, permission }) {
  if (permission === "DENY") return "";
  if (IMPLY_DESCRIBE.includes(operation)) return "That includes describe.";
  return operation === "ALTER_CONFIGS" ? "That includes describe configs." : "";
}

export function matches(acl, type, name) {
  if (acl.resource_type !== type) return false;
  return acl.pattern_type === "PREFIXED" ? name.startsWith(acl.resource_name) : acl.resource_name === "*" || acl.resource_name === name;
}

// ACLs that forbid some of what this one allows: they win.
export function winners(acl, acls) {
  if (acl.permission === "DENY") return [];
  return acls.filter((other) => other.permission === "DENY" && other.resource_type === acl.resource_type && [acl.principal, "User:*"].includes(other.principal) && (other.operation === "ALL" || acl.operation === "ALL" || other.operation === acl.operation) && (acl.host === other.host || [acl.host, other.host].includes("*")) && overlaps(acl, other));
}

function overlaps(a, b) {
  if (a.pattern_type === "PREFIXED" && b.pattern_type === "PREFIXED") return a.resource_name.startsWith(b.resource_name) || b.resource_name.startsWith(a.resource_name);
  const [literal, other] = a.pattern_type === "PREFIXED" ? [b, a] : [a, b];
  return literal.resource_name === "*" || matches(other, literal.resource_type, literal.resource_name);
}

const OPTIONS = { TOPIC: "--topic", GROUP: "--group", TRANSACTIONAL_ID: "--transactional-id", DELEGATION_TOKEN: "--delegation-token", USER: "--user-principal" };

export function wordsOf(acl) {
  const resource = acl.resource_type === "CLUSTER" ? ["--cluster"] : [OPTIONS[acl.resource_type], acl.resource_name, ...(acl.pattern_type === "PREFIXED" ? ["--resource-pattern-type", "prefixed"] : [])];
  return [...resource, "--operation", acl.operation.toLowerCase().replaceAll("_", "-")];
}
