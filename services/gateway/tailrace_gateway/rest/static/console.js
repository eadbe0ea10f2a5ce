"use strict";
// Shows the cluster and keeps showing it. Each part of the page asks for itself: one that gets no answer keeps what it
// has and says so, and the others go on. The dot is green only while the answers are new and nothing is wrong.
const REFRESH_MS = 3000;
const ANSWER_MS = 4000; // the gateway waits 3 s for a broker
const LATE_MS = REFRESH_MS + 1500;
const OLD_MS = REFRESH_MS + ANSWER_MS;
const TICK_MS = 1000;
const GROUPS_SHOWN = 50;
const TRANSACTIONS_SHOWN = 50;
const CLIENTS_SHOWN = 50;
const NAMES_SHOWN = 6;
const BROKERS_SHOWN = 50;
const RETRIABLE = 50003; // Confluent's number for what may be answered later
const AT_ONCE = 2; // of the few connections that a browser has for one address

function isSilence(error) {
  return error.name === "AbortError" || error.name === "TimeoutError";
}

async function get(path, signal) {
  const response = await fetch(path, { headers: { accept: "application/json" }, signal });
  const body = await response.json();
  if (!response.ok) throw Object.assign(new Error(body.message), { code: body.error_code });
  return body;
}

async function inTurn(items, work) {
  const results = [];
  let next = 0;
  async function worker() {
    while (next < items.length) {
      const at = next++;
      results[at] = await work(items[at]);
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return results;
}

function show(table, rows, empty) {
  const body = document.querySelector(`#${table} tbody`);
  const width = document.querySelectorAll(`#${table} th`).length;
  body.replaceChildren(...(rows.length ? rows.map((cells) => row(cells)) : [row([empty], width)]));
}

function row(cells, width) {
  const line = document.createElement("tr");
  for (const cell of cells) {
    const column = line.insertCell();
    const isNumber = typeof cell === "number";
    if (cell instanceof Node) column.append(cell);
    else column.textContent = isNumber ? cell.toLocaleString("en") : cell;
    column.className = isNumber ? "number" : cell.className ?? "";
    if (width) column.colSpan = width;
  }
  return line;
}

function styled(text, className) {
  return Object.assign(document.createElement("span"), { textContent: text ?? "", className });
}

function warned(text, isBad) {
  return styled(text, isBad ? "bad" : "");
}

function inWords(bytes) {
  if (bytes === null) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) {
    bytes /= 1024;
    at++;
  }
  return styled(`${bytes.toFixed(at ? 1 : 0)} ${units[at]}`, "number");
}

// -- what is wrong -------------------------------------------------------------------------------------------------

const HEALTH = [
  ["without a leader (offline)", "offline_partitions", "bad"],
  ["under min.insync.replicas: acks=all is refused", "under_min_isr_partitions", "bad"],
  ["under-replicated", "under_replicated_partitions", "warn"],
  ["at min.insync.replicas: one failure from refusing", "at_min_isr_partitions", ""],
  ["not led by their preferred replica", "preferred_replica_imbalance", ""],
  ["being reassigned", "reassigning_partitions", ""],
];

function counted(count, one, many) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

// Everything in a status that is not as it should be, the worst first: [level, sentence].
function problemsOf(status) {
  const found = [];
  if (status.controller.stale) found.push(["bad", "No controller answers: topics, configs and leaders cannot change."]);
  for (const [words, key, level] of HEALTH)
    if (level && status[key].count) found.push([level, `${counted(status[key].count, "partition is", "partitions are")} ${words}.`]);
  for (const dir of status.offline_log_dirs) found.push(["bad", `Broker ${dir.broker_id}: the log directory ${dir.log_dir} is offline.`]);
  for (const dir of status.log_dirs_under_pressure)
    found.push([dir.producers === "refused" ? "bad" : "warn", `Broker ${dir.broker_id}: ${dir.log_dir} is nearly full, producers are ${dir.producers}.`]);
  if (!status.brokers.some((broker) => broker.state === "live")) found.push(["bad", "No broker is live."]);
  for (const broker of status.brokers) if (broker.state !== "live") found.push(["warn", `Broker ${broker.broker_id} is ${broker.state}.`]);
  for (const id of status.silent_brokers) found.push(["warn", `Broker ${id} does not answer.`]);
  return found.sort((a, b) => (a[0] === b[0] ? 0 : a[0] === "bad" ? -1 : 1));
}

// What hangs is no part of the status: brokers are asked for it apart.
const seen = { problems: [], hanging: [], at: null, failure: null };

function judge() {
  const problems = [...seen.problems, ...seen.hanging];
  const state = document.getElementById("state");
  const isOld = seen.at === null || seen.failure !== null || Date.now() - seen.at > OLD_MS;
  const time = seen.at === null ? "" : new Date(seen.at).toLocaleTimeString();
  document.body.classList.toggle("old", seen.at !== null && isOld);
  if (isOld && seen.at !== null) {
    const seconds = Math.round((Date.now() - seen.at) / 1000);
    state.className = "bad";
    state.textContent = `no answer for ${seconds} s${seen.failure ? ` (${seen.failure})` : ""}: this is how it was at ${time}`;
  } else if (isOld) {
    state.className = seen.failure ? "bad" : "";
    state.textContent = seen.failure ?? "loading";
  } else {
    const [worst] = problems;
    const isLate = Date.now() - seen.at > LATE_MS;
    state.className = worst ? worst[0] : isLate ? "warn" : "good";
    const said = worst ? counted(problems.length, "problem", "problems") : isLate ? "all was well" : "all is well";
    state.textContent = `${said}, as of ${time}${isLate ? ", waiting for an answer" : ""}`;
  }
  document.getElementById("problems").replaceChildren(
    ...problems.map(([level, sentence]) => {
      const line = document.createElement("li");
      line.append(styled(sentence, level));
      return line;
    }),
  );
}

// -- the parts of the page -----------------------------------------------------------------------------------------

function healthRow([words, key, level], status) {
  const { count, partitions } = status[key];
  const names = partitions.slice(0, NAMES_SHOWN).map((p) => `${p.topic_name}-${p.partition_id}`);
  return [count && level ? styled(words, level) : words, count, names.join(", ") + (count > names.length ? " …" : "")];
}

async function refreshStatus(root, signal) {
  const [status, brokers] = await Promise.all([get(`${root}/status`, signal), get(`${root}/brokers`, signal)]);
  const addresses = new Map(brokers.data.map((b) => [b.broker_id, `${b.host}:${b.port}`]));
  const { controller, reassignments } = status;
  const who = `controller ${controller.controller_id}, epoch ${controller.controller_epoch}`;
  document.getElementById("controller").textContent = controller.stale ? `no controller answers (last: ${who})` : who;
  show("health", HEALTH.map((line) => healthRow(line, status)), "");
  show("brokers", status.brokers.map((b) => {
    const isSilent = status.silent_brokers.includes(b.broker_id);
    const state = isSilent ? "does not answer" : b.state;
    return [
      String(b.broker_id), addresses.get(b.broker_id) ?? "", b.rack ?? "", styled(state, isSilent || b.state !== "live" ? "warn" : ""),
      b.leader_count, b.replica_count, b.in_sync_count,
    ];
  }), "No broker.");
  show("reassignments", reassignments.map((r) => [
    `${r.topic_name}-${r.partition_id}`, r.adding_replicas.join(", "), r.removing_replicas.join(", "),
    r.total_bytes ? `${Math.floor((r.copied_bytes * 100) / r.total_bytes)} % of ${r.total_bytes.toLocaleString("en")} bytes` : "",
  ]), "Nothing is being moved.");
  seen.problems = problemsOf(status);
}

function topicLink(name) {
  const link = document.createElement("a");
  link.href = `#${encodeURIComponent(name)}`;
  link.textContent = name;
  return link;
}

async function refreshTopics(root, signal) {
  const topics = await get(`${root}/topics`, signal);
  show("topics", topics.data.map((t) => [topicLink(t.topic_name), t.partitions_count, t.replication_factor]), "No topic yet.");
}

function chosenTopic() {
  const hash = location.hash.slice(1);
  try {
    return decodeURIComponent(hash);
  } catch {
    return hash; // a link that somebody cut
  }
}

async function refreshPartitions(root, signal) {
  const name = chosenTopic();
  document.getElementById("of-topic").hidden = !name;
  if (!name) return;
  const title = document.getElementById("topic");
  if (title.textContent !== name) show("partitions", [], "");
  title.textContent = name;
  const topics = await get(`${root}/topics`, signal);
  if (!topics.data.some((topic) => topic.topic_name === name)) {
    show("partitions", [], "There is no topic of this name, or no longer.");
    return;
  }
  const { data } = await get(`${root}/topics/${encodeURIComponent(name)}/partitions`, signal);
  show("partitions", data.map((p) => [
    String(p.partition_id), p.leader_id === null ? warned("none", true) : String(p.leader_id), p.leader_epoch,
    ...[p.replica_ids, p.in_sync_replica_ids, p.eligible_leader_replica_ids, p.last_known_elr_ids].map((ids) => ids.join(", ")),
  ]), "No partition.");
}

async function logDirRows(root, broker, signal) {
  if (broker.state === "fenced") return [];
  try {
    const { data } = await get(`${root}/brokers/${broker.broker_id}/log-dirs`, signal);
    return data.map((dir) => [
      String(broker.broker_id), dir.log_dir, warned(dir.state, dir.state !== "online"),
      warned(dir.producers, dir.producers !== "accepted"), dir.partitions_count, ...[dir.size_bytes, dir.usable_bytes, dir.total_bytes].map(inWords),
    ]);
  } catch (error) {
    const why = isSilence(error) || error.code === RETRIABLE ? "does not answer" : error.message;
    return [[String(broker.broker_id), "", warned(why, true), "", "", "", "", ""]];
  }
}

async function refreshLogDirs(root, signal) {
  const { data } = await get(`${root}/brokers`, signal);
  const rows = await inTurn(data.slice(0, BROKERS_SHOWN), (broker) => logDirRows(root, broker, signal));
  show("log-dirs", rows.flat(), "No live broker.");
}

async function groupRow(root, group, signal) {
  const name = group.consumer_group_id;
  try {
    const lag = await get(`${root}/consumer-groups/${encodeURIComponent(name)}/lag-summary`, signal);
    if (lag.max_lag_topic_name === null) return [name, group.state, "", styled("no offsets", "number")];
    return [name, group.state, `${lag.max_lag_topic_name} / ${lag.max_lag_partition_id}`, lag.total_lag];
  } catch {
    return [name, group.state, "", styled("unknown", "number warn")];
  }
}

async function refreshGroups(root, signal) {
  const groups = await get(`${root}/consumer-groups`, signal);
  const shown = groups.data.slice(0, GROUPS_SHOWN);
  show("groups", await inTurn(shown, (group) => groupRow(root, group, signal)), "No group yet.");
  const hidden = groups.data.length - shown.length;
  document.getElementById("more").textContent = hidden ? `and ${hidden} more groups` : "";
}

const TRANSACTION_LEVELS = { OPEN: "", LATE: "warn", HANGING: "bad" };

async function refreshTransactions(root, signal) {
  const { data, silent_brokers: silent } = await get(`${root}/topics/-/partitions/-/transactions`, signal);
  const shown = data.slice(0, TRANSACTIONS_SHOWN);
  show("transactions", shown.map((t) => [
    `${t.topic_name}-${t.partition_id}`, styled(t.state.toLowerCase(), TRANSACTION_LEVELS[t.state]), t.transactional_id ?? "",
    styled(String(t.producer_id), "number"), t.start_offset, new Date(t.last_timestamp_ms).toLocaleString(),
  ]), silent.length ? "No open transaction is known." : "No transaction is open.");
  const hidden = data.length - shown.length;
  document.getElementById("more-transactions").textContent = hidden ? `and ${counted(hidden, "more", "more")}` : "";
  const hanging = data.filter((t) => t.state === "HANGING");
  const places = new Set(hanging.map((t) => `${t.topic_name}-${t.partition_id}`));
  const names = [...places].slice(0, NAMES_SHOWN).join(", ") + (places.size > NAMES_SHOWN ? " …" : "");
  seen.hanging = hanging.length ? [["warn", `${counted(hanging.length, "transaction hangs", "transactions hang")}: readers at read_committed wait at ${names}.`]] : [];
  const unknown = silent.slice(0, NAMES_SHOWN).join(", ") + (silent.length > NAMES_SHOWN ? " …" : "");
  return silent.length ? `Not known of the partitions of ${silent.length === 1 ? "broker" : "brokers"} ${unknown}: no answer.` : "";
}

async function refreshQuotas(root, signal) {
  const { data } = await get(`${root}/quota-usage`, signal);
  const shown = data.slice(0, CLIENTS_SHOWN);
  show("quotas", shown.map((used) => [
    used.user ?? "", used.client_id ?? "", used.ip ?? "", String(used.broker_id ?? ""), used.name, rounded(used.limit), rounded(used.usage),
    styled(`${Math.round((used.usage * 100) / used.limit)} %`, "number"), warned(used.throttled ? "throttled" : "", used.throttled),
    used.throttle_time_ms,
  ]), "No limited client is active.");
  const hidden = data.length - shown.length;
  document.getElementById("more-clients").textContent = hidden ? `and ${hidden} more limited clients` : "";
}

function rounded(rate) {
  return rate < 100 ? Math.round(rate * 100) / 100 : Math.round(rate);
}

// -- asking again and again ----------------------------------------------------------------------------------------

async function rootOf(signal) {
  const { data: [cluster] } = await get("/v3/clusters", signal);
  document.getElementById("cluster").textContent = cluster.cluster_id;
  return `/v3/clusters/${encodeURIComponent(cluster.cluster_id)}`;
}

function inShort(error) {
  if (isSilence(error)) return "no answer in time";
  return error instanceof TypeError ? "the gateway cannot be reached" : error.message;
}

// What a refresh returns is a note: what its part of the page is without.
async function once(refresh, onDone) {
  const signal = AbortSignal.timeout(ANSWER_MS);
  try {
    const lack = await refresh(await rootOf(signal), signal);
    onDone(null, lack);
  } catch (error) {
    onDone(inShort(error));
  }
  judge();
}

async function keep(refresh, onDone) {
  await once(refresh, onDone);
  setTimeout(keep, REFRESH_MS, refresh, onDone);
}

function noted(id) {
  const note = document.getElementById(id);
  let at = null;
  return (failure, lack = "") => {
    if (failure === null) at = new Date().toLocaleTimeString();
    note.textContent = failure === null ? lack : `Not shown anew: ${failure}.${at ? ` This is of ${at}.` : ""}`;
  };
}

function statusDone(failure) {
  seen.failure = failure;
  if (failure === null) seen.at = Date.now();
}

const partitionsDone = noted("of-topic-note");

window.addEventListener("hashchange", () => once(refreshPartitions, partitionsDone));
setInterval(judge, TICK_MS);
keep(refreshStatus, statusDone);
keep(refreshTopics, noted("topics-note"));
keep(refreshPartitions, partitionsDone);
keep(refreshLogDirs, noted("log-dirs-note"));
keep(refreshTransactions, noted("transactions-note"));
keep(refreshGroups, noted("groups-note"));
keep(refreshQuotas, noted("quotas-note"));
