// Limited clients that were active in the last minute, and what they use of their quotas.
import { html } from "../../core/html.js";
import { count, percent } from "../../core/format.js";
import { Age } from "../../core/shell.js";
import { part } from "../../core/state.js";
import { LongTable } from "../../core/table.js";

const rounded = (value) => (value < 100 ? Math.round(value * 100) / 100 : count(Math.round(value)));
const COLUMNS = [
  { key: "user", title: "User", cell: (row) => row.user ?? "" },
  { key: "client", title: "Client id", cell: (row) => row.client_id ?? "" },
  { key: "ip", title: "IP", wide: true, cell: (row) => row.ip ?? "" },
  { key: "broker", title: "Broker", wide: true, cell: (row) => row.broker_id ?? "" },
  { key: "quota", title: "Quota", wide: true, cell: (row) => row.name },
  { key: "limit", title: "Limit", number: true, wide: true, cell: (row) => rounded(row.limit) },
  { key: "used", title: "Used", number: true, cell: (row) => rounded(row.usage) },
  { key: "share", title: "Share", number: true, cell: (row) => percent(row.usage, row.limit) },
  { key: "state", title: "State", cell: (row) => row.throttled && html`<span class="bad">throttled</span>` },
  { key: "ms", title: "Throttled ms", number: true, wide: true, cell: (row) => count(row.throttle_time_ms) },
];

function Quotas() {
  const { rows, confirmedAt } = part("quotas");
  const shown = [...rows.value].sort((a, b) => a[0] - b[0]).map(([key, row]) => ({ key, ...row }));
  return html`<h1>Quotas</h1><${Age} of=${["quotas"]} />
    <${LongTable} label="Limited clients" columns=${COLUMNS} rows=${shown} empty=${confirmedAt.value === null ? "Loading" : "No limited client is active."} />`;
}

export default { name: "quotas", title: "Quotas", parts: () => ["quotas"], View: Quotas };
