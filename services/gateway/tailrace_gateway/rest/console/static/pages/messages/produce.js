// Produces one record.
import { html, useState } from "../../core/html.js";
import { curl } from "../../core/copyas.js";
import { ActionDialog, Field } from "../../core/dialog.js";
import { shell } from "../../core/format.js";
import { ask, pathOf } from "../../core/rest.js";

// name=value lines.
function headersOf(text) {
  return text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const at = line.indexOf("=");
    return at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 1)];
  });
}

function base64(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}

export function ProduceRecord({ name, partitions, onClose, onDone }) {
  const [wish, setWish] = useState({ key: "", hasKey: true, value: "", tombstone: false, headers: "", partition: "" });
  const set = (key, field = "value") => (event) => setWish({ ...wish, [key]: event.target[field] });
  const headers = headersOf(wish.headers);
  const body = {};
  if (wish.partition !== "") body.partition_id = Number(wish.partition);
  if (headers.length) body.headers = headers.map(([header, value]) => ({ name: header, value: base64(value) }));
  if (wish.hasKey) body.key = { type: "STRING", data: wish.key };
  if (!wish.tombstone) body.value = { type: "STRING", data: wish.value };
  const path = pathOf("topics", name, "records");
  const words = ["tailrace", "produce", name, ...(wish.hasKey ? ["--key", wish.key] : []), ...(wish.partition === "" ? [] : ["-p", wish.partition])];
  for (const [header, value] of headers) words.push("-H", `${header}=${value}`);
  if (wish.tombstone) words.push("--null");
  const cli = `${shell("printf", "%s\\n", wish.tombstone ? "" : wish.value)} | ${shell(...words)}`;
  async function act() {
    const done = await ask(path, { method: "POST", body });
    if (done.error_code && done.error_code !== 200) throw new Error(done.message);
    onDone();
    return `The record is at offset ${done.offset} of ${name}-${done.partition_id}.`;
  }
  return html`<${ActionDialog} title="Produce to ${name}" verb="Produce" twins=${[["REST", curl("POST", path, body)], ["CLI", cli]]} act=${act} onClose=${onClose}>
    <label><input type="checkbox" checked=${wish.hasKey} onChange=${set("hasKey", "checked")} /> with a key</label>
    ${wish.hasKey && html`<${Field} label="Key"><input autocomplete="off" value=${wish.key} onInput=${set("key")} /></${Field}>`}
    <label><input type="checkbox" checked=${wish.tombstone} onChange=${set("tombstone", "checked")} /> a tombstone, without a value</label>
    ${!wish.tombstone && html`<${Field} label="Value"><textarea rows="6" value=${wish.value} onInput=${set("value")}></textarea></${Field}>`}
    <${Field} label="Headers" hint="one name=value in each line"><textarea rows="2" value=${wish.headers} onInput=${set("headers")}></textarea></${Field}>
    <${Field} label="Partition"><select value=${wish.partition} onChange=${set("partition")}><option value="">by the key</option>${partitions.map((one) => html`<option value=${one}>${one}</option>`)}</select></${Field}>
  </${ActionDialog}>`;
}
