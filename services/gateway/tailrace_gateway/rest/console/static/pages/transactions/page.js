// Transactions that are open in partitions, those that hang first.
import { html, useState } from "../../core/html.js";
import { count, moment, UNKNOWN } from "../../core/format.js";
import { href } from "../../core/router.js";
import { mayCluster } from "../../core/rights.js";
import { Age } from "../../core/shell.js";
import { part } from "../../core/state.js";
import { LongTable } from "../../core/table.js";
import { AbortTransaction } from "./abort.js";

const LEVELS = { OPEN: ["open", ""], LATE: ["late", "warn"], HANGING: ["hanging", "bad"] };
const ORDER = ["HANGING", "LATE", "OPEN"];
const columnsOf = (onAbort) => [
  { key: "partition", title: "Partition", cell: (row) => html`<a href=${href(["topics", row.topic])}>${row.topic}-${row.partition}</a>` },
  { key: "state", title: "State", cell: (row) => html`<span class=${LEVELS[row.state][1]}>${LEVELS[row.state][0]}</span>` },
  { key: "id", title: "Transactional id", cell: (row) => row.transactional_id ?? UNKNOWN },
  { key: "producer", title: "Producer", number: true, wide: true, cell: (row) => String(row.producer_id) },
  { key: "from", title: "From offset", number: true, wide: true, cell: (row) => count(row.start_offset) },
  { key: "last", title: "Last record (UTC)", wide: true, cell: (row) => moment(row.last_timestamp_ms) },
  { key: "abort", title: "", cell: (row) => row.state === "HANGING" && mayCluster("ALTER") && html`<button type="button" class="plain" aria-label="Abort in ${row.topic}-${row.partition}" onClick=${() => onAbort(row)}>Abort</button>` },
];

function Transactions() {
  const [aborted, setAborted] = useState(null);
  const { rows, note, confirmedAt } = part("transactions");
  const shown = [...rows.value].map(([key, row]) => ({ key, ...row })).sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || a.last_timestamp_ms - b.last_timestamp_ms);
  const empty = confirmedAt.value === null ? "Loading" : note.value ? "No open transaction is known." : "No transaction is open.";
  return html`<h1>Transactions</h1><${Age} of=${["transactions"]} />
    <${LongTable} label="Open transactions" columns=${columnsOf(setAborted)} rows=${shown} empty=${empty} />
    ${aborted && html`<${AbortTransaction} row=${aborted} onClose=${() => setAborted(null)} />`}`;
}

export default { name: "transactions", title: "Transactions", parts: () => [], View: Transactions };
