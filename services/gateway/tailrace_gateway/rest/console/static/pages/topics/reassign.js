// Moves one partition to other brokers (AlterPartitionReassignments). The page of brokers shows how far it is.
import { html, useState } from "../../core/html.js";
import { curl } from "../../core/copyas.js";
import { ActionDialog, Field } from "../../core/dialog.js";
import { shell } from "../../core/format.js";
import { rowsOf } from "../../core/health.js";
import { ask, pathOf } from "../../core/rest.js";

export function ReassignPartition({ name, rows, onClose }) {
  const [partition, setPartition] = useState(rows[0]?.key ?? "0");
  const [typed, setTyped] = useState("");
  const row = rows.find((one) => one.key === partition);
  const replicas = typed.split(/[\s,]+/).filter(Boolean);
  const live = rowsOf("broker").filter((one) => one.state === "live").map((one) => String(one.broker_id)).sort((a, b) => a - b);
  const unknown = replicas.find((id) => !live.includes(id));
  const isSame = row && replicas.join() === row.replicas.join();
  const problem = unknown ? `${unknown} is not a live broker.` : new Set(replicas).size < replicas.length ? "A broker is named twice." : isSame ? "These are its replicas now." : "";
  const path = pathOf("topics", name, "partitions", partition, "reassignment");
  const body = { replicas: replicas.map(Number) };
  const plan = JSON.stringify({ version: 1, partitions: [{ topic: name, partition: Number(partition), replicas: body.replicas }] });
  async function act() {
    await ask(path, { method: "PUT", body });
    return `The reassignment of ${name}-${partition} has begun. Brokers shows how far it is.`;
  }
  return html`<${ActionDialog} title="Reassign a partition of ${name}" verb="Begin to move" ready=${Boolean(replicas.length && !problem)} act=${act} onClose=${onClose}
    twins=${[["REST", curl("PUT", path, body)], ["CLI", `${shell("printf", "%s", plan)} | tailrace reassign execute -`]]}>
    <${Field} label="Partition"><select value=${partition} onChange=${(event) => setPartition(event.target.value)}>${rows.map((one) => html`<option value=${one.key}>${one.key}</option>`)}</select></${Field}>
    <p class="diff"><del>- ${row?.replicas.join(", ")}</del>${replicas.length > 0 && html`<br /><ins>+ ${replicas.join(", ")}</ins>`}</p>
    <${Field} label="Replicas" hint="ids of brokers, the preferred leader first; live are ${live.join(", ")}"><input autocomplete="off" value=${typed} onInput=${(event) => setTyped(event.target.value)} /></${Field}>
    <p class="bad" role="status">${problem}</p>
  </${ActionDialog}>`;
}
