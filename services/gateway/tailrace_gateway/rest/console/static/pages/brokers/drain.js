// Moves every replica off a broker. The cluster takes the wish at once; the page then shows how far it is.
import { html, useState } from "../../core/html.js";
import { curl } from "../../core/copyas.js";
import { ActionDialog } from "../../core/dialog.js";
import { counted, shell } from "../../core/format.js";
import { ask, pathOf } from "../../core/rest.js";

export function DrainBroker({ row, onClose }) {
  const [shrink, setShrink] = useState(false);
  const id = String(row.broker_id);
  const path = pathOf("brokers", id) + (shrink ? "?shrink=true" : "");
  const twins = [["REST", curl("DELETE", path)], ["CLI", shell("tailrace", "broker", "drain", id, ...(shrink ? ["--shrink"] : []))]];
  async function act() {
    await ask(path, { method: "DELETE" });
    return `The drain of broker ${id} has begun. This page says when it holds no partition.`;
  }
  return html`<${ActionDialog} title="Drain broker ${id}" verb="Begin to drain" twins=${twins} act=${act} onClose=${onClose}>
    <p>${counted(row.replicas, "partition", "partitions")} that it holds, of which it leads ${row.leaders}, will be copied to other brokers, and leave it when the copies are in sync. It runs on meanwhile.</p>
    <label><input type="checkbox" checked=${shrink} onChange=${(event) => setShrink(event.target.checked)} /> one replica fewer where no other broker can take it</label>
  </${ActionDialog}>`;
}
