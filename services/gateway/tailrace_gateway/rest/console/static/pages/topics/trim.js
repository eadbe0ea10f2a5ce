// Trims a topic (DeleteRecords): all records before an offset are gone for good.
import { html, useState } from "../../core/html.js";
import { curl } from "../../core/copyas.js";
import { ActionDialog, Field } from "../../core/dialog.js";
import { count, counted, shell } from "../../core/format.js";
import { ask, pathOf, verbOf } from "../../core/rest.js";

export function TrimTopic({ name, rows, onClose }) {
  const [typed, setTyped] = useState("");
  const [partition, setPartition] = useState(rows.length === 1 ? "0" : "");
  const [offset, setOffset] = useState("");
  const chosen = rows.filter((row) => partition === "" || row.key === partition);
  const wanted = chosen.map((row) => ({ partition_id: Number(row.key), offset: offset === "" ? row.end : Number(offset) }));
  const isKnown = wanted.length > 0 && wanted.every((row) => row.offset !== null);
  const lost = isKnown ? chosen.reduce((total, row, at) => total + Math.max(0, Math.min(wanted[at].offset, row.end) - row.start), 0) : null;
  const path = verbOf(pathOf("topics", name, "records"), "delete");
  const body = { partitions: wanted };
  const cli = shell("tailrace", "topic", "delete-records", name, ...(partition === "" ? [] : ["-p", partition]), "--before", offset || "latest", "--yes");
  const twins = [["REST", curl("POST", path, body)], ["CLI", cli]];
  async function act() {
    const { data } = await ask(path, { method: "POST", body });
    return `${name} is trimmed: ${counted(data.length, "partition begins", "partitions begin")} at ${data.slice(0, 6).map((row) => row.new_first_offset).join(", ")}${data.length > 6 ? " …" : ""}.`;
  }
  return html`<${ActionDialog} title="Trim ${name}" verb="Trim" danger ready=${isKnown && typed === name} twins=${twins} act=${act} onClose=${onClose}>
    <${Field} label="Partition"><select value=${partition} onChange=${(event) => setPartition(event.target.value)}>
      <option value="">all</option>${rows.map((row) => html`<option value=${row.key}>${row.key}</option>`)}
    </select></${Field}>
    <${Field} label="Delete records before offset" hint="empty: all records"><input type="number" min="0" value=${offset} onInput=${(event) => setOffset(event.target.value)} /></${Field}>
    <p>${counted(lost, "record", "records").replace(/^–/, "An unknown number of")} of ${count(chosen.length)} ${chosen.length === 1 ? "partition" : "partitions"} will be gone for good.</p>
    <${Field} label="Type the topic's name"><input autocomplete="off" value=${typed} onInput=${(event) => setTyped(event.target.value)} /></${Field}>
  </${ActionDialog}>`;
}
