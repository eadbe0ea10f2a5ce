// Counts of partitions that are not as they should be, moves under way, and log directories.
import { html } from "../../core/html.js";
import { COUNTS, rowsOf } from "../../core/health.js";
import { bytes, count, percent, UNKNOWN } from "../../core/format.js";
import { part } from "../../core/state.js";
import { Table } from "../../core/table.js";

const HEALTH = [
  { key: "words", title: "Partitions", cell: (row) => html`<span class=${row.count ? row.level : ""}>${row.words}</span>` },
  { key: "count", title: "Count", number: true, cell: (row) => count(row.count) },
  { key: "names", title: "Which", wide: true, cell: (row) => (row.names ?? []).join(", ") + (row.count > (row.names ?? []).length ? " …" : "") },
];

export function Health() {
  const found = new Map(rowsOf("count").map((row) => [row.word, row]));
  const rows = COUNTS.map(([key, words, level]) => ({ key, words, level, ...(found.get(key) ?? { count: null }) }));
  return html`<${Table} label="Partitions by state" columns=${HEALTH} rows=${rows} />`;
}

const MOVES = [
  { key: "name", title: "Partition", cell: (row) => row.name },
  { key: "adding", title: "Adding", cell: (row) => row.adding.join(", ") },
  { key: "removing", title: "Removing", cell: (row) => row.removing.join(", ") },
  { key: "copied", title: "Copied", number: true, cell: (row) => (row.total_bytes ? `${percent(row.copied_bytes, row.total_bytes)} of ${bytes(row.total_bytes)}` : UNKNOWN) },
];

export function Moves() {
  return html`<${Table} label="Reassignments" columns=${MOVES} rows=${rowsOf("move")} rowKey=${(row) => row.name} empty="Nothing is being moved." />`;
}

const DIRS = [
  { key: "broker", title: "Broker", number: true, cell: (row) => row.broker_id },
  { key: "dir", title: "Directory", cell: (row) => (row.silent ? html`<span class="bad">does not answer</span>` : row.log_dir) },
  { key: "state", title: "State", cell: (row) => html`<span class=${row.state === "online" ? "" : "bad"}>${row.state}</span>` },
  { key: "producers", title: "Producers", wide: true, cell: (row) => html`<span class=${row.producers === "accepted" ? "" : "bad"}>${row.producers}</span>` },
  { key: "replicas", title: "Replicas", number: true, wide: true, cell: (row) => count(row.partitions) },
  { key: "held", title: "Held", number: true, cell: (row) => bytes(row.size_bytes) },
  { key: "left", title: "Left", number: true, cell: (row) => bytes(row.usable_bytes) },
  { key: "of", title: "Of", number: true, wide: true, cell: (row) => bytes(row.total_bytes) },
];

// of: one broker's alone.
export function LogDirs({ of: brokerId }) {
  const all = [...part("log-dirs").rows.value].map(([key, row]) => ({ key, ...row })).sort((a, b) => a.broker_id - b.broker_id);
  const rows = brokerId === undefined ? all : all.filter((row) => row.broker_id === brokerId);
  return html`<${Table} label="Log directories" columns=${DIRS} rows=${rows} empty=${part("log-dirs").confirmedAt.value === null ? "Loading" : "No live broker."} />`;
}
