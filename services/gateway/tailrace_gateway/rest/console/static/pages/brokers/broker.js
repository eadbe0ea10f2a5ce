// One broker: how far its drain is, its log directories, and what can be done to it.
import { html, useState } from "../../core/html.js";
import { count, counted, UNKNOWN } from "../../core/format.js";
import { brokerState, rowsOf } from "../../core/health.js";
import { href } from "../../core/router.js";
import { mayCluster } from "../../core/rights.js";
import { Age } from "../../core/shell.js";
import { part } from "../../core/state.js";
import { LogDirs } from "../overview/tables.js";
import { DrainBroker } from "./drain.js";
import { Moves } from "./moves.js";
import { UnregisterBroker } from "./unregister.js";

const DIALOGS = { drain: DrainBroker, unregister: UnregisterBroker };

// What is said of a drain is what the cluster's image says: no partition is forgotten, however it came to leave.
function Drain({ row }) {
  if (!row.replicas) return html`<p class="good" role="status">It holds no partition.</p>`;
  if (!row.leaving) return null;
  const all = row.leaving === row.replicas;
  return html`<p class="soft" role="status">${all ? "It is being emptied" : "Partitions leave it"}: ${counted(row.leaving, "partition", "partitions")} of ${count(row.replicas)} ${row.leaving === 1 ? "is" : "are"} on the way to other brokers.</p>`;
}

export function OneBroker({ id }) {
  const [open, setOpen] = useState("");
  const row = rowsOf("broker").find((one) => String(one.broker_id) === id);
  const known = part("status").confirmedAt.value !== null;
  const back = html`<p class="soft"><a href=${href(["brokers"])}>Brokers</a></p>`;
  if (!row) return html`${back}<h1>Broker ${id}</h1><p>${known ? "There is no broker of this id, or no longer." : "Loading"}</p>`;
  const [level, state] = brokerState(row);
  const Open = DIALOGS[open];
  return html`${back}
    <h1>Broker ${id}</h1><${Age} of=${["status"]} />
    <dl class="facts">
      <div><dt>State</dt><dd class=${level}>${state}</dd></div>
      <div><dt>Address</dt><dd>${row.address}</dd></div>
      <div><dt>Rack</dt><dd>${row.rack ?? UNKNOWN}</dd></div>
      <div><dt>Leads</dt><dd>${count(row.leaders)}</dd></div>
      <div><dt>Holds</dt><dd>${count(row.replicas)}</dd></div>
      <div><dt>In sync</dt><dd>${count(row.in_sync)}</dd></div>
    </dl>
    <${Drain} row=${row} />
    ${mayCluster("ALTER") && html`<div class="tools">
      <button type="button" disabled=${!row.replicas} onClick=${() => setOpen("drain")}>Drain</button>
      <button type="button" disabled=${row.replicas > 0 || row.state !== "fenced"} title="of a broker that is stopped and holds no partition" onClick=${() => setOpen("unregister")}>Unregister</button>
    </div>`}
    <h2>Reassignments</h2><${Moves} of=${row.broker_id} />
    <h2>Log directories</h2><${Age} of=${["log-dirs"]} /><${LogDirs} of=${row.broker_id} />
    ${Open && html`<${Open} row=${row} onClose=${() => setOpen("")} />`}`;
}
