// Deletes an empty group with its offsets, once its name was typed.
import { html, useState } from "../../core/html.js";
import { curl } from "../../core/copyas.js";
import { ActionDialog, Field } from "../../core/dialog.js";
import { shell } from "../../core/format.js";
import { ask, pathOf } from "../../core/rest.js";
import { go } from "../../core/router.js";

export function DeleteGroup({ name, onClose }) {
  const [typed, setTyped] = useState("");
  const path = pathOf("consumer-groups", name);
  const twins = [["REST", curl("DELETE", path)], ["CLI", shell("tailrace", "group", "delete", "--yes", name)]];
  async function act() {
    await ask(path, { method: "DELETE" });
    go(["groups"]);
    return `Group ${name} is deleted.`;
  }
  return html`<${ActionDialog} title="Delete ${name}" verb="Delete" danger ready=${typed === name} twins=${twins} act=${act} onClose=${onClose}>
    <p>The group and its committed offsets will be gone for good.</p>
    <${Field} label="Type the group's name"><input autocomplete="off" value=${typed} onInput=${(event) => setTyped(event.target.value)} /></${Field}>
  </${ActionDialog}>`;
}
