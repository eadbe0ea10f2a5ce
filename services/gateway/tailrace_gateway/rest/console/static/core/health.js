// What is wrong, the worst first, and the one word for it all. It is good only where everything has answered lately.
import { computed } from "./html.js";
import { counted, duration } from "./format.js";
import { seesCluster } from "./rights.js";
import { heardAt, isSilent, now, part, streamFailure } from "./state.js";

const LATE_MS = 6000; // after the next look was due: status is looked at every two seconds

export const COUNTS = [
  ["offline", "without a leader (offline)", "bad"],
  ["under_min_isr", "under min.insync.replicas: acks=all is refused", "bad"],
  ["under_replicated", "under-replicated", "warn"],
  ["at_min_isr", "at min.insync.replicas: one failure from refusing", ""],
  ["not_preferred", "not led by their preferred replica", ""],
  ["reassigning", "being reassigned", ""],
];
const status = part("status");
const transactions = part("transactions");

export const rowsOf = (kind) => [...status.rows.value].filter(([key]) => key.startsWith(`${kind}:`)).map(([, row]) => row);
// A broker's state in words, and their colour.
export function brokerState(row) {
  if (row.state !== "live") return ["warn", row.state];
  return row.silent ? ["bad", "does not answer"] : ["good", "answers"];
}

export const cluster = computed(() => status.rows.value.get("cluster"));

export const problems = computed(() => {
  const found = [];
  const rows = status.rows.value;
  const add = (level, text, more = "") => found.push({ level, text, more });
  if (!cluster.value) return found;
  if (cluster.value.stale) add("bad", "No controller answers: topics, configs and leaders cannot change.");
  for (const [word, words, level] of COUNTS) {
    const row = rows.get(`count:${word}`);
    if (level && row?.count) add(level, `${counted(row.count, "partition is", "partitions are")} ${words}.`, namesOf(row));
  }
  for (const row of rowsOf("offline")) add("bad", `Broker ${row.broker_id}: the log directory ${row.log_dir} is offline.`);
  for (const row of rowsOf("pressed")) add(row.producers === "refused" ? "bad" : "warn", `Broker ${row.broker_id}: ${row.log_dir} is nearly full, producers are ${row.producers}.`);
  const brokers = rowsOf("broker");
  if (!brokers.some((row) => row.state === "live")) add("bad", "No broker is live.");
  for (const row of brokers) {
    if (row.state !== "live") add("warn", `Broker ${row.broker_id} is ${row.state}.`);
    else if (row.silent) add("bad", `Broker ${row.broker_id} does not answer.`);
  }
  for (const row of rowsOf("service")) if (row.silent) add("bad", `${named(row)} does not answer.`);
  for (const row of rowsOf("absent")) add("bad", `No ${row.role} is there: groups and transactions stand still.`);
  const hanging = [...transactions.rows.value.values()].filter((row) => row.state === "HANGING");
  if (hanging.length) add("warn", `${counted(hanging.length, "transaction hangs", "transactions hang")}: readers at read_committed wait.`);
  const unknown = unknownOf("Open transactions", transactions) || transactions.note.value;
  if (unknown) add("warn", unknown.endsWith(".") ? unknown : `${unknown}.`);
  return found.sort((a, b) => (a.level === b.level ? 0 : a.level === "bad" ? -1 : 1));
});

function namesOf(row) {
  return row.names.join(", ") + (row.count > row.names.length ? " …" : "");
}

export function named(row) {
  return `${row.role[0].toUpperCase()}${row.role.slice(1)}${row.role === "quota" ? " service" : ""} ${row.id}`;
}

// Why nothing can be said by a part that was looked at; "" where it can, and before the first look.
function unknownOf(what, { confirmedAt, failure, waitMs }) {
  if (failure.value) return `${what}: not known. ${failure.value}`;
  const age = confirmedAt.value === null ? 0 : now.value - confirmedAt.value;
  return age > waitMs.value + LATE_MS ? `${what}: ${duration(age / 1000)} old` : "";
}

export const verdict = computed(() => {
  if (isSilent.value) {
    const why = streamFailure.value || "no answer";
    const since = heardAt.value === null ? "" : ` for ${duration((now.value - heardAt.value) / 1000)}`;
    return { level: "bad", text: `This gateway does not answer${since}: ${why}` };
  }
  if (!seesCluster("DESCRIBE")) return { level: "", text: "You may not see the state of the cluster" };
  const unknown = unknownOf("Status", status);
  if (unknown) return { level: "bad", text: unknown };
  if (status.confirmedAt.value === null) return { level: "", text: "Loading" };
  const [worst] = problems.value;
  if (worst) return { level: worst.level, text: counted(problems.value.length, "problem", "problems") };
  if (transactions.confirmedAt.value === null) return { level: "", text: "Loading" };
  return { level: "good", text: "All is well" };
});
