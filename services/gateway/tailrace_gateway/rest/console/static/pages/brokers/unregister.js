// Forgets a broker that is stopped and holds nothing, once its id was typed.
import { html, useState } from "../../core/html.js";
import { curl } from "../../core/copyas.js";
import { ActionDialog, Field } from "../../core/dialog.js";
import { shell } from "../../core/format.js";
import { ask, pathOf, verbOf } from "../../core/rest.js";
import { go } from "../../core/router.js";

export function UnregisterBroker({ row, onClose }) {
  const [typed, setTyped] = useState("");
  const id = String(row.broker_id);
  const path = verbOf(pathOf("brokers", id), "unregister");
  async function act() {
    await ask(path, { method: "POST" });
    go(["brokers"]);
    return `Broker ${id} is forgotten.`;
  }
  return html`<${ActionDialog} title="Unregister broker ${id}" verb="Unregister" danger ready=${typed === id} twins=${[["REST", curl("POST", path)], ["CLI", shell("tailrace", "broker", "unregister", id)]]} act=${act} onClose=${onClose}>
    <p>The cluster forgets the broker. It registers itself anew when it is started again.</p>
    <${Field} label="Type the broker's id"><input autocomplete="off" value=${typed} onInput=${(event) => setTyped(event.target.value)} /></${Field}>
  </${ActionDialog}>`;
}
