// All brokers, with what each leads and holds, and the partitions that are on their way between them.
import { html, useState } from "../../core/html.js";
import { count, counted } from "../../core/format.js";
import { brokerState, COUNTS, rowsOf } from "../../core/health.js";
import { href } from "../../core/router.js";
import { mayCluster } from "../../core/rights.js";
import { Age } from "../../core/shell.js";
import { part } from "../../core/state.js";
import { Table } from "../../core/table.js";
import { LogDirs } from "../overview/tables.js";
import { ElectLeaders } from "./elect.js";
import { Moves } from "./moves.js";

const COLUMNS = [
  { key: "id", title: "Broker", number: true, cell: (row) => html`<a href=${href(["brokers", row.broker_id])} aria-label="Broker ${row.broker_id}">${row.broker_id}</a>` },
  { key: "state", title: "State", cell: (row) => html`<span class=${brokerState(row)[0]}>${brokerState(row)[1]}</span>` },
  { key: "address", title: "Address", wide: true, cell: (row) => row.address },
  { key: "rack", title: "Rack", wide: true, cell: (row) => row.rack ?? "" },
  { key: "leads", title: "Leads", number: true, cell: (row) => count(row.leaders) },
  { key: "holds", title: "Holds", number: true, cell: (row) => count(row.replicas) },
  { key: "sync", title: "In sync", number: true, wide: true, cell: (row) => count(row.in_sync) },
  { key: "leaving", title: "Leaving", number: true, cell: (row) => count(row.leaving) },
];

export function BrokerList() {
  const [electing, setElecting] = useState(false);
  const known = part("status").confirmedAt.value !== null;
  const brokers = rowsOf("broker").sort((a, b) => a.broker_id - b.broker_id);
  const notPreferred = rowsOf("count").find((row) => row.word === "not_preferred");
  const words = COUNTS.find(([word]) => word === "not_preferred")[1];
  return html`<h1>Brokers</h1><${Age} of=${["status"]} />
    <div class="tools">
      ${mayCluster("ALTER") && html`<button type="button" onClick=${() => setElecting(true)}>Elect preferred leaders</button>`}
      <span class="soft" role="status">${notPreferred && `${counted(notPreferred.count, "partition is", "partitions are")} ${words}.`}</span>
    </div>
    <${Table} label="Brokers" columns=${COLUMNS} rows=${brokers} rowKey=${(row) => row.broker_id} empty=${known ? "No broker is registered." : "Loading"} />
    <h2>Reassignments</h2><${Moves} />
    <h2>Log directories</h2><${Age} of=${["log-dirs"]} /><${LogDirs} />
    ${electing && html`<${ElectLeaders} row=${notPreferred} onClose=${() => setElecting(false)} />`}`;
}
