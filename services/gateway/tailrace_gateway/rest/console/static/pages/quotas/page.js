// Quotas: what is set, and limited clients that were active in the last minute with what they use.
import { html, useState } from "../../core/html.js";
import { count, counted, percent } from "../../core/format.js";
import { mayCluster } from "../../core/rights.js";
import { Age } from "../../core/shell.js";
import { part } from "../../core/state.js";
import { LongTable, Table } from "../../core/table.js";
import { entityName, RemoveQuota, SetQuota } from "./change.js";

const rounded = (value) => (value < 100 ? Math.round(value * 100) / 100 : count(Math.round(value)));
const USAGE = [
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
const limitsOf = (onChange, onRemove) => [
  { key: "entity", title: "Of", cell: (row) => entityName(row.entity) },
  { key: "name", title: "Quota", cell: (row) => row.name },
  { key: "value", title: "Limit", number: true, cell: (row) => rounded(row.value) },
  { key: "change", title: "", cell: (row) => mayCluster("ALTER_CONFIGS") && html`<button type="button" class="plain" aria-label="Change ${row.name} of ${entityName(row.entity)}" onClick=${() => onChange(row)}>Change</button> <button type="button" class="plain" aria-label="Remove ${row.name} of ${entityName(row.entity)}" onClick=${() => onRemove(row)}>Remove</button>` },
];

function Quotas() {
  const [changed, setChanged] = useState(null);
  const [removed, setRemoved] = useState(null);
  const usage = part("quotas");
  const limits = part("quota-limits");
  const used = [...usage.rows.value].sort((a, b) => a[0] - b[0]).map(([key, row]) => ({ key, ...row }));
  const set = [...limits.rows.value].sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, row]) => ({ key, ...row }));
  const throttled = used.filter((row) => row.throttled).length;
  return html`<h1>Quotas</h1><${Age} of=${["quotas", "quota-limits"]} />
    <div class="tools">${mayCluster("ALTER_CONFIGS") && html`<button type="button" class="primary" onClick=${() => setChanged({})}>Set a quota</button>`}
      <span class=${throttled ? "bad" : "soft"} role="status">${usage.confirmedAt.value !== null && (throttled ? `${counted(throttled, "limit is", "limits are")} reached: those clients are throttled.` : "No client is throttled.")}</span></div>
    <h2>What is set</h2>
    <${Table} label="Quotas" columns=${limitsOf(setChanged, setRemoved)} rows=${set} empty=${limits.confirmedAt.value === null ? "Not known" : "No quota is set."} />
    <h2>What limited clients use</h2>
    <${LongTable} label="Limited clients" columns=${USAGE} rows=${used} empty=${usage.confirmedAt.value === null ? "Not known" : "No limited client is active."} />
    ${changed && html`<${SetQuota} row=${changed} onClose=${() => setChanged(null)} />`}
    ${removed && html`<${RemoveQuota} row=${removed} onClose=${() => setRemoved(null)} />`}`;
}

export default { name: "quotas", title: "Quotas", parts: () => ["quotas", "quota-limits"], View: Quotas };
