"use strict";
// Shows the cluster and keeps showing it: one round of requests, then the next a while after the last was answered.
const REFRESH_MS = 3000;
const GROUPS_SHOWN = 50;

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
    column.textContent = typeof cell === "number" ? cell.toLocaleString("en") : cell;
    if (typeof cell === "number") column.className = "number";
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

async function refresh() {
  const { data: [cluster] } = await get("/v3/clusters");
  const root = `/v3/clusters/${encodeURIComponent(cluster.cluster_id)}`;
  document.getElementById("cluster").textContent = cluster.cluster_id;
  const [brokers, topics] = await Promise.all([get(`${root}/brokers`), get(`${root}/topics`)]);
  show("brokers", brokers.data.map((b) => [String(b.broker_id), `${b.host}:${b.port}`, b.rack ?? ""]), "No live broker.");
  show("topics", topics.data.map((t) => [t.topic_name, t.partitions_count, t.replication_factor]), "No topic yet.");
  const groups = await get(`${root}/consumer-groups`);
  const shown = groups.data.slice(0, GROUPS_SHOWN);
  show("groups", await Promise.all(shown.map((group) => groupRow(root, group))), "No group yet.");
  const hidden = groups.data.length - shown.length;
  document.getElementById("more").textContent = hidden ? `and ${hidden} more groups` : "";
}

async function keepRefreshing() {
  const state = document.getElementById("state");
  try {
    await refresh();
    state.className = "good";
    state.textContent = `as of ${new Date().toLocaleTimeString()}`;
  } catch (error) {
    state.className = "bad";
    state.textContent = error.message;
  }
  setTimeout(keepRefreshing, REFRESH_MS);
}

keepRefreshing();
