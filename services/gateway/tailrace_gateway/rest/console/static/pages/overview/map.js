// Who is in the cluster: the controller, the brokers, the services, and whether each has answered.
import { html } from "../../core/html.js";
import { brokerState, cluster, named, rowsOf } from "../../core/health.js";
import { count, duration } from "../../core/format.js";
import { href } from "../../core/router.js";
import { now, part } from "../../core/state.js";

function Card({ title, level, state, children }) {
  return html`<div class="card ${level === "good" ? "" : level}"><h3>${title}</h3><p class=${level || "good"}>${state}</p>${children}</div>`;
}

export function ClusterMap() {
  if (!cluster.value) return html`<p class="soft">Loading</p>`;
  const { controller_id: id, controller_epoch: epoch, stale, topics, partitions } = cluster.value;
  const age = duration(Math.max(0, now.value - part("status").confirmedAt.value) / 1000);
  return html`<div class="cards">
    <${Card} title="Controller ${id}" level=${stale ? "bad" : ""} state=${stale ? "does not answer" : "answers"}>
      <p class="soft">epoch ${epoch}, ${count(topics)} topics, ${count(partitions)} partitions</p><p class="soft">asked ${age} ago</p>
    </${Card}>
    ${rowsOf("broker").map((row) => {
      const [level, state] = brokerState(row);
      return html`<${Card} key=${`b${row.broker_id}`} title=${html`<a href=${href(["brokers", row.broker_id])}>Broker ${row.broker_id}</a>`} level=${level} state=${state}>
        <p class="soft">${row.address}${row.rack && `, rack ${row.rack}`}</p>
        <p class="soft">leads ${count(row.leaders)}, holds ${count(row.replicas)}, ${count(row.in_sync)} in sync</p><p class="soft">asked ${age} ago</p>
      </${Card}>`;
    })}
    ${rowsOf("service").map((row) => {
      const isAsked = row.role !== "gateway";
      return html`<${Card} key=${row.role + row.id} title=${named(row)} level=${row.silent ? "bad" : ""} state=${row.silent ? "does not answer" : isAsked ? "answers" : "registered"}>
        ${isAsked && html`<p class="soft">asked ${age} ago</p>`}
      </${Card}>`;
    })}
    ${rowsOf("absent").map((row) => html`<${Card} key=${row.role} title="No ${row.role}" level="bad" state="is not there" />`)}
  </div>`;
}
