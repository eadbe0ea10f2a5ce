// The partitions that are being reassigned, how far their copies are, and the way back.
import { html, useState } from "../../core/html.js";
import { curl } from "../../core/copyas.js";
import { ActionDialog } from "../../core/dialog.js";
import { bytes, count, percent, shell, UNKNOWN } from "../../core/format.js";
import { rowsOf } from "../../core/health.js";
import { ask, pathOf } from "../../core/rest.js";
import { mayCluster } from "../../core/rights.js";
import { href } from "../../core/router.js";
import { Table } from "../../core/table.js";

const columnsOf = (onCancel) => [
  { key: "name", title: "Partition", cell: (row) => html`<a href=${href(["topics", row.topic])}>${row.name}</a>` },
  { key: "adding", title: "Adding", cell: (row) => row.adding.join(", ") },
  { key: "removing", title: "Removing", wide: true, cell: (row) => row.removing.join(", ") },
  { key: "copied", title: "Copied", number: true, cell: (row) => (row.total_bytes ? html`<span title="of ${bytes(row.total_bytes)}">${percent(row.copied_bytes, row.total_bytes)}</span>` : UNKNOWN) },
  { key: "cancel", title: "", cell: (row) => mayCluster("ALTER") && html`<button type="button" class="plain" aria-label="Cancel ${row.name}" onClick=${() => onCancel(row)}>Cancel</button>` },
];

export function Moves({ of: brokerId }) {
  const [cancelled, setCancelled] = useState(null);
  const all = rowsOf("move");
  const rows = brokerId === undefined ? all : all.filter((row) => row.adding.includes(brokerId) || row.removing.includes(brokerId));
  const total = rowsOf("count").find((row) => row.word === "reassigning")?.count ?? 0;
  return html`<${Table} label="Reassignments" columns=${columnsOf(setCancelled)} rows=${rows} rowKey=${(row) => row.name} empty="Nothing is being moved." />
    ${total > all.length && html`<p class="soft">${count(all.length)} of ${count(total)} partitions that are being moved are known here.</p>`}
    ${cancelled && html`<${CancelMove} row=${cancelled} onClose=${() => setCancelled(null)} />`}`;
}

function CancelMove({ row, onClose }) {
  const path = pathOf("topics", row.topic, "partitions", String(row.partition), "reassignment");
  const plan = JSON.stringify({ version: 1, partitions: [{ topic: row.topic, partition: row.partition, replicas: [] }] });
  async function act() {
    await ask(path, { method: "DELETE" });
    return `The reassignment of ${row.name} is cancelled.`;
  }
  return html`<${ActionDialog} title="Cancel the reassignment of ${row.name}" verb="Go back" twins=${[["REST", curl("DELETE", path)], ["CLI", `${shell("printf", "%s", plan)} | tailrace reassign cancel -`]]} act=${act} onClose=${onClose}>
    <p>The partition goes back to its replicas from before. What was copied to ${row.adding.length ? `broker ${row.adding.join(", ")}` : "other brokers"} is removed.</p>
  </${ActionDialog}>`;
}
