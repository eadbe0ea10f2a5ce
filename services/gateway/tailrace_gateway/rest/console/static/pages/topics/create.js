// Creates a topic. Fields that are left empty are the brokers' defaults.
import { html, useState } from "../../core/html.js";
import { curl } from "../../core/copyas.js";
import { ActionDialog, Field } from "../../core/dialog.js";
import { shell } from "../../core/format.js";
import { ask, pathOf } from "../../core/rest.js";
import { go } from "../../core/router.js";

export function bodyOf({ name, partitions, replicas, configs }) {
  const body = { topic_name: name };
  if (partitions) body.partitions_count = Number(partitions);
  if (replicas) body.replication_factor = Number(replicas);
  if (configs.length) body.configs = configs.map(([key, value]) => ({ name: key, value }));
  return body;
}

// name=value lines; a line without = is not left out in silence.
export function configLines(text) {
  return text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const at = line.indexOf("=");
    return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  });
}

export function CreateTopic({ onClose }) {
  const [wish, setWish] = useState({ name: "", partitions: "", replicas: "", text: "" });
  const set = (key) => (event) => setWish({ ...wish, [key]: event.target.value });
  const configs = configLines(wish.text);
  const body = bodyOf({ ...wish, configs });
  const words = ["tailrace", "topic", "create", wish.name || "NAME"];
  if (wish.partitions) words.push("-p", wish.partitions);
  if (wish.replicas) words.push("-r", wish.replicas);
  for (const [key, value] of configs) words.push("-c", `${key}=${value}`);
  const twins = [["REST", curl("POST", pathOf("topics"), body)], ["CLI", shell(...words)]];
  async function act() {
    const made = await ask(pathOf("topics"), { method: "POST", body });
    go(["topics", wish.name]);
    return `Topic ${wish.name} is created with ${made.partitions_count} partitions and ${made.replication_factor} replicas.`;
  }
  return html`<${ActionDialog} title="Create a topic" verb="Create" ready=${wish.name !== ""} twins=${twins} act=${act} onClose=${onClose}>
    <${Field} label="Name"><input required autocomplete="off" value=${wish.name} onInput=${set("name")} /></${Field}>
    <${Field} label="Partitions" hint="empty: num.partitions"><input type="number" min="1" value=${wish.partitions} onInput=${set("partitions")} /></${Field}>
    <${Field} label="Replicas" hint="empty: default.replication.factor"><input type="number" min="1" value=${wish.replicas} onInput=${set("replicas")} /></${Field}>
    <${Field} label="Configs" hint="one name=value in each line"><textarea rows="3" value=${wish.text} onInput=${set("text")}></textarea></${Field}>
  </${ActionDialog}>`;
}
