// What this session may do, as the gateway says of each resource: what it may not do is not offered.
import { part } from "./state.js";

function row(name) {
  return part(name).rows.value.get("may");
}

// The user of the session; null where the cluster asks for no login, and before that is known.
export function userName() {
  return row("rights")?.user ?? null;
}

// Whether the session may do all of these operations on the cluster.
export function mayCluster(...operations) {
  const known = row("rights");
  return known !== undefined && operations.every((one) => known.operations.includes(one));
}

// Whether it may create some topic at least.
export function mayCreateTopics() {
  return row("rights")?.creates_topics ?? false;
}

export function mayTopic(name, operation) {
  return row(`topic-rights:${name}`)?.operations.includes(operation) ?? false;
}

export function mayGroup(name, operation) {
  return row(`group-rights:${name}`)?.operations.includes(operation) ?? false;
}

// Whether a page about the cluster is worth a look: also while that is not known.
export function seesCluster(operation) {
  const known = row("rights");
  return known === undefined || known.operations.includes(operation);
}
