// All topics: a search, what each holds, and how fast it grows.
import { computed, html, useState } from "../../core/html.js";
import { bytes, count, counted, rate } from "../../core/format.js";
import { href, note } from "../../core/router.js";
import { mayCreateTopics } from "../../core/rights.js";
import { Age } from "../../core/shell.js";
import { part } from "../../core/state.js";
import { LongTable, sorted } from "../../core/table.js";
import { CreateTopic } from "./create.js";

const COLUMNS = [
  { key: "name", title: "Topic", sort: (row) => row.key, cell: (row) => html`<a href=${href(["topics", row.key])} title=${row.key}>${row.key}</a>${row.internal && html` <span class="soft">internal</span>`}` },
  { key: "state", title: "State", wide: true, sort: (row) => -(row.offline * 1e6 + row.under_replicated), cell: stateOf },
  { key: "partitions", title: "Partitions", number: true, sort: (row) => row.partitions, cell: (row) => count(row.partitions) },
  { key: "replication", title: "Replicas", number: true, wide: true, sort: (row) => row.replication, cell: (row) => count(row.replication) },
  { key: "records", title: "Records", number: true, sort: (row) => row.records, cell: (row) => count(row.records) },
  { key: "bytes", title: "Size", number: true, wide: true, sort: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
  { key: "rate", title: "Records in", number: true, wide: true, sort: (row) => row.rate, cell: (row) => rate(row.rate) },
];

function stateOf(row) {
  if (row.offline) return html`<span class="bad">${counted(row.offline, "partition", "partitions")} offline</span>`;
  if (row.under_replicated) return html`<span class="warn">${counted(row.under_replicated, "partition", "partitions")} under-replicated</span>`;
  return "in sync";
}

const all = computed(() => {
  const figures = part("figures").rows.value;
  return [...part("topics").rows.value].map(([key, row]) => ({ key, ...row, ...figures.get(key) }));
});

export function TopicList({ query }) {
  const [creating, setCreating] = useState(false);
  const search = query.get("q") ?? "";
  const internal = query.get("internal") === "1";
  const sort = { by: query.get("sort") ?? "name", down: query.get("down") === "1" };
  const noted = (change) => {
    const next = { q: search, internal: internal && 1, sort: sort.by === "name" ? "" : sort.by, down: sort.down && 1, ...change };
    note(next);
  };
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.value.filter((row) => (internal || !row.internal) && words.every((word) => row.key.toLowerCase().includes(word)));
  const known = part("topics").confirmedAt.value !== null;
  return html`<h1>Topics</h1>
    <${Age} of=${["topics", "figures"]} />
    <div class="tools">
      <label class="field"><span>Search</span><input type="search" value=${search} onInput=${(event) => noted({ q: event.target.value })} /></label>
      <label><input type="checkbox" checked=${internal} onChange=${(event) => noted({ internal: event.target.checked && 1 })} /> internal topics</label>
      ${mayCreateTopics() && html`<button type="button" class="primary" onClick=${() => setCreating(true)}>Create a topic</button>`}
      <span class="soft" role="status">${known && `${count(found.length)} of ${counted(all.value.length, "topic", "topics")}`}</span>
    </div>
    <${LongTable} label="Topics" columns=${COLUMNS} rows=${sorted(found, COLUMNS, sort)} sort=${sort}
      onSort=${({ by, down }) => noted({ sort: by === "name" ? "" : by, down: down && 1 })}
      empty=${!known ? "Loading" : all.value.length ? "No topic is like that." : "No topic yet."} />
    ${creating && html`<${CreateTopic} onClose=${() => setCreating(false)} />`}`;
}
