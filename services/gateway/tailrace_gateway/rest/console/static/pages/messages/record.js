// One record, whole: key, value, headers, with JSON indented, and a link to it.
import { html } from "../../core/html.js";
import { CopyAs, curl } from "../../core/copyas.js";
import { Dialog } from "../../core/dialog.js";
import { bytes, moment, shell } from "../../core/format.js";
import { pathOf } from "../../core/rest.js";
import { href } from "../../core/router.js";
import { indented, isJson } from "./json.js";

const TYPES = { STRING: "text", JSON: "JSON", HEX: "hexadecimal", BINARY: "not text: base64" };

function Content({ title, content, none }) {
  if (content === null) return html`<h3>${title}</h3><p class="soft">${none}</p>`;
  const text = String(content.data);
  const shown = content.type === "STRING" && isJson(text) ? indented(text) : text;
  const kind = content.type === "STRING" && shown !== text ? "JSON" : TYPES[content.type];
  return html`<h3>${title} <span class="soft">${kind}, ${bytes(content.size)}</span></h3><pre tabindex="0" aria-label=${title}>${shown}</pre>`;
}

export function OneRecord({ record, onClose }) {
  const { topic_name: topic, partition_id: partition, offset } = record;
  const path = `${pathOf("topics", topic, "partitions", partition, "records")}?from=${offset}&limit=1`;
  const twins = [
    ["REST", curl("GET", path)],
    ["CLI", shell("tailrace", "consume", topic, "--json", "-p", String(partition), "-o", String(offset), "-n", "1")],
    ["kcat", shell("kcat", "-C", "-b", `${location.hostname}:9092`, "-t", topic, "-p", String(partition), "-o", String(offset), "-c", "1", "-J")],
  ];
  return html`<${Dialog} title="${topic}-${partition} at offset ${offset}" onClose=${onClose}>
    <p class="soft">${moment(record.timestamp_ms)} UTC. <a href=${href(["messages", topic], { start: "offset", at: offset, partition })}>Link to it</a></p>
    <${Content} title="Key" content=${record.key} none="No key." />
    <${Content} title="Value" content=${record.value} none="No value: a tombstone." />
    ${record.headers.map(({ name, value }, at) => html`<${Content} key=${at} title="Header ${name}" content=${value} none="null" />`)}
    ${!record.headers.length && html`<p class="soft">No headers.</p>`}
    <div class="buttons"><button type="button" onClick=${onClose}>Close</button></div>
    <${CopyAs} twins=${twins} />
  </${Dialog}>`;
}
