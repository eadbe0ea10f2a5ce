// Resets the committed offsets of a group without members: first the plan, then the commit of it.
import { html, useState } from "../../core/html.js";
import { curl } from "../../core/copyas.js";
import { ActionDialog, Field } from "../../core/dialog.js";
import { count, counted, shell, UNKNOWN } from "../../core/format.js";
import { ask, pathOf, verbOf } from "../../core/rest.js";
import { Table } from "../../core/table.js";

const TARGETS = {
  EARLIEST: ["the first record", "--to-earliest"], LATEST: ["the end", "--to-latest"], OFFSET: ["an offset", "--to-offset", "number"],
  SHIFT: ["so many records on (back with a minus)", "--shift-by", "number"], DATETIME: ["a moment (UTC)", "--to-datetime", "text", "2026-11-28T09:30:00.000"],
  DURATION: ["so long ago", "--by-duration", "text", "PT1H"],
};
const COLUMNS = [
  { key: "name", title: "Partition", cell: (row) => `${row.topic_name}-${row.partition_id}` },
  { key: "current", title: "Committed", number: true, cell: (row) => count(row.current_offset) },
  { key: "new", title: "New", number: true, cell: (row) => count(row.new_offset) },
  { key: "by", title: "Difference", number: true, cell: (row) => (row.current_offset === null ? UNKNOWN : `${row.new_offset > row.current_offset ? "+" : ""}${count(row.new_offset - row.current_offset)}`) },
];

export function ResetGroup({ name, partitions, members, onClose }) {
  const [to, setTo] = useState("EARLIEST");
  const [value, setValue] = useState("");
  const [topic, setTopic] = useState("");
  const [plan, setPlan] = useState({ of: "", rows: [], failure: "" });
  const [words, option, kind, example] = TARGETS[to];
  const wish = { to };
  if (kind) wish.value = kind === "number" ? Number(value) : value;
  if (topic) wish.topics = [{ topic_name: topic }];
  const path = verbOf(pathOf("consumer-groups", name, "offsets"), "reset");
  const key = JSON.stringify(wish);
  const isPlanned = plan.of === key && !plan.failure;
  const cli = ["tailrace", "group", "reset", name, ...(topic ? ["-t", topic] : []), option, ...(kind ? [value || "VALUE"] : []), "--execute"];
  async function look() {
    try {
      const { data } = await ask(path, { method: "POST", body: { ...wish, validate_only: true } });
      setPlan({ of: key, rows: data, failure: "" });
    } catch (error) {
      setPlan({ of: key, rows: [], failure: error.message });
    }
  }
  async function act() {
    const offsets = plan.rows.map((row) => ({ topic_name: row.topic_name, partition_id: row.partition_id, offset: row.new_offset }));
    const { data } = await ask(path, { method: "POST", body: { to: "OFFSETS", offsets } }); // the offsets that were seen
    return `${counted(data.length, "offset", "offsets")} of ${name} ${data.length === 1 ? "is" : "are"} reset.`;
  }
  const topics = [...new Set(partitions.map((row) => row.topic))].sort();
  return html`<${ActionDialog} title="Reset offsets of ${name}" verb="Commit the plan" danger ready=${isPlanned && plan.rows.length > 0} act=${act} onClose=${onClose}
    twins=${[["REST", curl("POST", path, wish)], ["CLI", shell(...cli)]]}>
    ${members.length > 0 && html`<p class="warn">The group has ${counted(members.length, "member", "members")}: stop ${members.length === 1 ? "it" : "them"} first.</p>`}
    <${Field} label="To"><select value=${to} onChange=${(event) => setTo(event.target.value)}>${Object.entries(TARGETS).map(([target, [text]]) => html`<option value=${target}>${text}</option>`)}</select></${Field}>
    ${kind && html`<${Field} label=${words}><input type=${kind} placeholder=${example} value=${value} onInput=${(event) => setValue(event.target.value)} /></${Field}>`}
    <${Field} label="Topic"><select value=${topic} onChange=${(event) => setTopic(event.target.value)}><option value="">all that it has committed</option>${topics.map((one) => html`<option value=${one}>${one}</option>`)}</select></${Field}>
    <button type="button" disabled=${Boolean(kind) && value === ""} onClick=${look}>Show the plan</button>
    <p class=${plan.failure ? "bad" : "soft"} role="status">${plan.of !== key ? "Nothing is changed before the plan was seen." : plan.failure || `The plan for ${counted(plan.rows.length, "partition", "partitions")}:`}</p>
    ${isPlanned && html`<${Table} label="The plan" columns=${COLUMNS} rows=${plan.rows} rowKey=${(row) => `${row.topic_name}-${row.partition_id}`} empty="Nothing would be changed." />`}
  </${ActionDialog}>`;
}
