// Deletes a topic, once its name was typed; gives a topic more partitions.
import { html, useState } from "../../core/html.js";
import { curl } from "../../core/copyas.js";
import { ActionDialog, Field } from "../../core/dialog.js";
import { count, shell } from "../../core/format.js";
import { ask, pathOf } from "../../core/rest.js";
import { go } from "../../core/router.js";

export function DeleteTopic({ name, topic, onClose }) {
  const [typed, setTyped] = useState("");
  const path = pathOf("topics", name) + (topic?.internal ? "?internal=true" : "");
  const twins = [["REST", curl("DELETE", path)], ["CLI", shell("tailrace", "topic", "delete", "--yes", ...(topic?.internal ? ["--internal"] : []), name)]];
  async function act() {
    await ask(path, { method: "DELETE" });
    go(["topics"]);
    return `Topic ${name} is deleted.`;
  }
  return html`<${ActionDialog} title="Delete ${name}" verb="Delete" danger ready=${typed === name} twins=${twins} act=${act} onClose=${onClose}>
    <p>The topic and all its records will be gone for good.${topic?.internal && html` <strong class="bad">The cluster itself works with this topic.</strong>`}</p>
    <${Field} label="Type the topic's name"><input autocomplete="off" value=${typed} onInput=${(event) => setTyped(event.target.value)} /></${Field}>
  </${ActionDialog}>`;
}

export function AddPartitions({ name, topic, onClose }) {
  const [wanted, setWanted] = useState("");
  const body = { partitions_count: Number(wanted) };
  const path = pathOf("topics", name);
  const twins = [["REST", curl("PATCH", path, body)], ["CLI", shell("tailrace", "topic", "alter", name, "-p", wanted || "N")]];
  async function act() {
    await ask(path, { method: "PATCH", body });
    return `${name} has ${count(body.partitions_count)} partitions.`;
  }
  return html`<${ActionDialog} title="Add partitions to ${name}" verb="Add" ready=${body.partitions_count > (topic?.partitions ?? 0)} twins=${twins} act=${act} onClose=${onClose}>
    <p>It has ${count(topic?.partitions)} now. Keys may go to other partitions afterwards, and there is no way back.</p>
    <${Field} label="Partitions"><input type="number" min=${(topic?.partitions ?? 0) + 1} value=${wanted} onInput=${(event) => setWanted(event.target.value)} /></${Field}>
  </${ActionDialog}>`;
}
