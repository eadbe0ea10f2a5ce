"use strict";
// Shows the cluster and keeps showing it: one round of requests, then the next a while after the last was answered.
const REFRESH_MS = 3000;
const GROUPS_SHOWN = 50;
const NAMES_SHOWN = 6;
const BROKERS_SHOWN = 50;

async function get(path) {
  const response = await fetch(path, { headers: { accept: "application/json" } });
  const body = await response.json();
  if (!response.ok) throw new Error(body.message);
  return body;
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

async function groupRow(root, group) {
  const name = group.consumer_group_id;
  try {
    const lag = await get(`${root}/consumer-groups/${encodeURIComponent(name)}/lag-summary`);
    return [name, group.state, `${lag.max_lag_topic_name} / ${lag.max_lag_partition_id}`, lag.total_lag];
  } catch {
    return [name, group.state, "", "no offsets"];
  }
}

const HEALTH = [
  ["without a leader (offline)", "offline_partitions"],
  ["under min.insync.replicas: acks=all is refused", "under_min_isr_partitions"],
  ["under-replicated", "under_replicated_partitions"],
  ["at min.insync.replicas: one failure from refusing", "at_min_isr_partitions"],
  ["not led by their preferred replica", "preferred_replica_imbalance"],
  ["being reassigned", "reassigning_partitions"],
];

function healthRow([words, count]) {
  const names = count.partitions.slice(0, NAMES_SHOWN).map((p) => `${p.topic_name}-${p.partition_id}`);
  return [words, count.count, names.join(", ") + (count.count > names.length ? " …" : "")];
}

function showStatus(status, addresses) {
  const { controller, reassignments } = status;
  const who = `controller ${controller.controller_id}, epoch ${controller.controller_epoch}`;
  document.getElementById("controller").textContent = controller.stale ? `no controller answers (last: ${who})` : who;
  show("health", HEALTH.map(([words, key]) => healthRow([words, status[key]])), "");
  show("brokers", status.brokers.map((b) => [
    String(b.broker_id), addresses.get(b.broker_id) ?? "", b.rack ?? "", b.state, b.leader_count, b.replica_count, b.in_sync_count,
  ]), "No broker.");
  show("reassignments", reassignments.map((r) => [
    `${r.topic_name}-${r.partition_id}`, r.adding_replicas.join(", "), r.removing_replicas.join(", "),
    r.total_bytes ? `${Math.floor((r.copied_bytes * 100) / r.total_bytes)} % of ${r.total_bytes.toLocaleString("en")} bytes` : "",
  ]), "Nothing is being moved.");
}

function styled(text, className) {
  return Object.assign(document.createElement("span"), { textContent: text, className });
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

function warned(text, isBad) {
  return styled(text ?? "", isBad ? "bad" : "");
}

async function logDirRows(root, broker) {
  if (broker.state === "fenced") return [];
  try {
    const { data } = await get(`${root}/brokers/${broker.broker_id}/log-dirs`);
    return data.map((dir) => [
      String(broker.broker_id), dir.log_dir, warned(dir.state, dir.state !== "online"),
      warned(dir.producers, dir.producers !== "accepted"), dir.partitions_count, ...[dir.size_bytes, dir.usable_bytes, dir.total_bytes].map(inWords),
    ]);
  } catch (error) {
    return [[String(broker.broker_id), "", warned(error.message, true), "", "", "", "", ""]];
  }
}

function topicLink(name) {
  const link = document.createElement("a");
  link.href = `#${encodeURIComponent(name)}`;
  link.textContent = name;
  return link;
}

async function showPartitions(root) {
  const name = decodeURIComponent(location.hash.slice(1));
  document.getElementById("of-topic").hidden = !name;
  if (!name) return;
  document.getElementById("topic").textContent = name;
  const { data } = await get(`${root}/topics/${encodeURIComponent(name)}/partitions`);
  show("partitions", data.map((p) => [
    String(p.partition_id), p.leader_id === null ? "none" : String(p.leader_id), p.leader_epoch,
    ...[p.replica_ids, p.in_sync_replica_ids, p.eligible_leader_replica_ids, p.last_known_elr_ids].map((ids) => ids.join(", ")),
  ]), "No partition.");
}

async function refresh() {
  const { data: [cluster] } = await get("/v3/clusters");
  const root = `/v3/clusters/${encodeURIComponent(cluster.cluster_id)}`;
  document.getElementById("cluster").textContent = cluster.cluster_id;
  const [status, brokers, topics] = await Promise.all([get(`${root}/status`), get(`${root}/brokers`), get(`${root}/topics`)]);
  showStatus(status, new Map(brokers.data.map((b) => [b.broker_id, `${b.host}:${b.port}`])));
  show("topics", topics.data.map((t) => [topicLink(t.topic_name), t.partitions_count, t.replication_factor]), "No topic yet.");
  await showPartitions(root);
  const dirs = await Promise.all(status.brokers.slice(0, BROKERS_SHOWN).map((broker) => logDirRows(root, broker)));
  show("log-dirs", dirs.flat(), "No live broker.");
  const groups = await get(`${root}/consumer-groups`);
  const shown = groups.data.slice(0, GROUPS_SHOWN);
  show("groups", await Promise.all(shown.map((group) => groupRow(root, group))), "No group yet.");
  const hidden = groups.data.length - shown.length;
  document.getElementById("more").textContent = hidden ? `and ${hidden} more groups` : "";
}

async function refreshAndSay() {
  const state = document.getElementById("state");
  try {
    await refresh();
    state.className = "good";
    state.textContent = `as of ${new Date().toLocaleTimeString()}`;
  } catch (error) {
    state.className = "bad";
    state.textContent = error.message;
  }
}

async function keepRefreshing() {
  await refreshAndSay();
  setTimeout(keepRefreshing, REFRESH_MS);
}

window.addEventListener("hashchange", refreshAndSay);

keepRefreshing();
