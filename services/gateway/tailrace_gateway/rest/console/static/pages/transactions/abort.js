// Aborts a transaction that hangs, in its partition, once the partition's name was typed.
import { html, useState } from "../../core/html.js";
import { curl } from "../../core/copyas.js";
import { ActionDialog, Field } from "../../core/dialog.js";
import { count, moment, shell } from "../../core/format.js";
import { ask, pathOf, verbOf } from "../../core/rest.js";

export function AbortTransaction({ row, onClose }) {
  const [typed, setTyped] = useState("");
  const name = `${row.topic}-${row.partition}`;
  const path = verbOf(pathOf("topics", row.topic, "partitions", String(row.partition), "transactions"), "abort");
  const body = { producer_id: row.producer_id, start_offset: row.start_offset };
  const cli = shell("tailrace", "transaction", "abort", "--topic", row.topic, "--partition", String(row.partition), "--start-offset", String(row.start_offset));
  async function act() {
    await ask(path, { method: "POST", body });
    return `The transaction of producer ${row.producer_id} in ${name} is aborted.`;
  }
  return html`<${ActionDialog} title="Abort the transaction in ${name}" verb="Abort" danger ready=${typed === name} twins=${[["REST", curl("POST", path, body)], ["CLI", cli]]} act=${act} onClose=${onClose}>
    <p>No coordinator has the transaction of producer ${row.producer_id} open. It began at offset ${count(row.start_offset)}, its last record is of ${moment(row.last_timestamp_ms)} (UTC). Readers at read_committed wait for its end.</p>
    <p>Then they skip its records in ${name} and go on. Other partitions stay as they are.</p>
    <${Field} label="Type the partition's name" hint=${name}><input autocomplete="off" value=${typed} onInput=${(event) => setTyped(event.target.value)} /></${Field}>
  </${ActionDialog}>`;
}
