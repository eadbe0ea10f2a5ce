// One topic: partitions, configs, and what can be done to it.
import { html, useState } from "../../core/html.js";
import { bytes, count, rate, UNKNOWN } from "../../core/format.js";
import { href, note } from "../../core/router.js";
import { mayCluster, mayTopic } from "../../core/rights.js";
import { Age } from "../../core/shell.js";
import { part } from "../../core/state.js";
import { LongTable } from "../../core/table.js";
import { Configs } from "./configs.js";
import { ReassignPartition } from "./reassign.js";
import { AddPartitions, DeleteTopic } from "./remove.js";
import { TrimTopic } from "./trim.js";

const ids = (list) => (list.length ? list.join(", ") : UNKNOWN);
const COLUMNS = [
  { key: "partition", title: "Partition", number: true, cell: (row) => row.key },
  { key: "leader", title: "Leader", number: true, cell: (row) => (row.leader < 0 ? html`<span class="bad">none</span>` : row.leader) },
  { key: "epoch", title: "Leader epoch", number: true, wide: true, cell: (row) => row.leader_epoch },
  { key: "replicas", title: "Replicas", wide: true, cell: (row) => ids(row.replicas) },
  { key: "isr", title: "In sync (ISR)", cell: (row) => html`<span class=${row.isr.length < row.replicas.length ? "warn" : ""}>${ids(row.isr)}</span>` },
  { key: "elr", title: "Eligible (ELR)", wide: true, cell: (row) => ids(row.elr) },
  { key: "last", title: "Last known ELR", wide: true, cell: (row) => ids(row.last_known_elr) },
  { key: "start", title: "First offset", number: true, wide: true, cell: (row) => count(row.start) },
  { key: "end", title: "End offset", number: true, cell: (row) => count(row.end) },
  { key: "bytes", title: "Size", number: true, wide: true, cell: (row) => bytes(row.bytes) },
  { key: "rate", title: "Records in", number: true, wide: true, cell: (row) => rate(row.rate) },
];
const DIALOGS = { trim: TrimTopic, delete: DeleteTopic, partitions: AddPartitions, reassign: ReassignPartition };

function sum(rows, key) {
  return rows.some((row) => row[key] === null) ? null : rows.reduce((total, row) => total + row[key], 0);
}

export function OneTopic({ name, query }) {
  const [open, setOpen] = useState("");
  const topic = part("topics").rows.value.get(name);
  const watched = part(`topic:${name}`);
  const rows = [...watched.rows.value].map(([key, row]) => ({ key, ...row })).sort((a, b) => a.key - b.key);
  const tab = query.get("tab") === "configs" ? "configs" : "partitions";
  const Open = DIALOGS[open];
  const isGone = part("topics").confirmedAt.value !== null && topic === undefined;
  if (isGone) return html`<h1>${name}</h1><p>There is no topic of this name, or no longer. <a href=${href(["topics"])}>All topics</a></p>`;
  const records = rows.length ? rows.map((row) => (row.end === null || row.start === null ? null : row.end - row.start)) : [null];
  return html`<p class="soft"><a href=${href(["topics"])}>Topics</a></p>
    <h1>${name}</h1>
    <${Age} of=${["topics", `topic:${name}`]} />
    <dl class="facts">
      <div><dt>Partitions</dt><dd>${count(topic?.partitions)}</dd></div>
      <div><dt>Replicas</dt><dd>${count(topic?.replication)}</dd></div>
      <div><dt>Records</dt><dd>${count(records.includes(null) ? null : records.reduce((a, b) => a + b, 0))}</dd></div>
      <div><dt>Size</dt><dd>${bytes(rows.length ? sum(rows, "bytes") : null)}</dd></div>
      <div><dt>Records in</dt><dd>${rate(rows.length ? sum(rows, "rate") : null)}</dd></div>
    </dl>
    <div class="tools">
      <a href=${href(["messages", name])}>Messages</a>
      ${mayTopic(name, "ALTER") && html`<button type="button" onClick=${() => setOpen("partitions")}>Add partitions</button>`}
      ${mayCluster("ALTER") && html`<button type="button" disabled=${!rows.length} onClick=${() => setOpen("reassign")}>Reassign</button>`}
      ${mayTopic(name, "DELETE") && html`<button type="button" onClick=${() => setOpen("trim")}>Trim</button>`}
      ${mayTopic(name, "DELETE") && html`<button type="button" onClick=${() => setOpen("delete")}>Delete</button>`}
    </div>
    <div class="tabs" role="group" aria-label="Shown of this topic">
      <button type="button" aria-pressed=${String(tab === "partitions")} onClick=${() => note({})}>Partitions</button>
      <button type="button" aria-pressed=${String(tab === "configs")} onClick=${() => note({ tab: "configs" })}>Configs</button>
    </div>
    ${tab === "configs" ? html`<${Configs} name=${name} />` : html`<${LongTable} label="Partitions" columns=${COLUMNS} rows=${rows} empty="Loading" />`}
    ${Open && html`<${Open} name=${name} rows=${rows} topic=${topic} onClose=${() => setOpen("")} />`}`;
}
