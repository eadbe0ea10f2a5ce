// ACLs: which principal may do what, from where; one is added after a look at what it allows.
import { html, useState } from "../../core/html.js";
import { curl } from "../../core/copyas.js";
import { ActionDialog } from "../../core/dialog.js";
import { count, counted, shell } from "../../core/format.js";
import { ask, pathOf } from "../../core/rest.js";
import { mayCluster } from "../../core/rights.js";
import { note } from "../../core/router.js";
import { Age } from "../../core/shell.js";
import { part } from "../../core/state.js";
import { LongTable } from "../../core/table.js";
import { AddAcl } from "./add.js";
import { sentenceOf, wordsOf } from "./meaning.js";

const columnsOf = (onRemove) => [
  { key: "principal", title: "Principal", cell: (row) => row.principal },
  { key: "permission", title: "May", cell: (row) => html`<span class=${row.permission === "DENY" ? "bad" : ""}>${row.permission === "DENY" ? "may not" : "may"}</span>` },
  { key: "operation", title: "Operation", cell: (row) => row.operation.toLowerCase().replaceAll("_", " ") },
  { key: "resource", title: "On", cell: (row) => `${row.resource_type.toLowerCase().replaceAll("_", " ")} ${row.resource_name}${row.pattern_type === "PREFIXED" ? " …" : ""}` },
  { key: "host", title: "From", wide: true, cell: (row) => (row.host === "*" ? "anywhere" : row.host) },
  { key: "do", title: "", cell: (row) => onRemove && html`<button type="button" class="plain" aria-label="Remove: ${sentenceOf(row)}" onClick=${() => onRemove(row)}>Remove</button>` },
];

export function Acls({ query }) {
  const [adding, setAdding] = useState(false);
  const [removed, setRemoved] = useState(null);
  const search = query.get("q") ?? "";
  const { rows, confirmedAt } = part("acls");
  const all = [...rows.value].sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, row]) => ({ key, ...row }));
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.filter((row) => words.every((word) => sentenceOf(row).toLowerCase().includes(word)));
  const mayAlter = mayCluster("ALTER");
  return html`<h2>ACLs</h2><${Age} of=${["acls"]} />
    <div class="tools">
      <label class="field"><span>Search ACLs</span><input type="search" value=${search} onInput=${(event) => note({ q: event.target.value })} /></label>
      ${mayAlter && html`<button type="button" class="primary" onClick=${() => setAdding(true)}>Add an ACL</button>`}
      <span class="soft" role="status">${confirmedAt.value !== null && `${count(found.length)} of ${counted(all.length, "ACL", "ACLs")}`}</span>
    </div>
    <${LongTable} label="ACLs" columns=${columnsOf(mayAlter && setRemoved)} rows=${found} empty=${confirmedAt.value === null ? "Not known" : all.length ? "No ACL is like that." : "No ACL yet: only super users may do something."} />
    ${adding && html`<${AddAcl} acls=${all} onClose=${() => setAdding(false)} />`}
    ${removed && html`<${RemoveAcl} acl=${removed} onClose=${() => setRemoved(null)} />`}`;
}

const FIELDS = ["resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission"];

function RemoveAcl({ acl, onClose }) {
  const path = `${pathOf("acls")}?${new URLSearchParams(FIELDS.map((field) => [field, acl[field]]))}`;
  const cli = ["tailrace", "acl", "delete", ...wordsOf(acl), "--principal", acl.principal, "--permission", acl.permission.toLowerCase(), "--host", acl.host];
  async function act() {
    const { data } = await ask(path, { method: "DELETE" });
    return data.length ? "The ACL is removed." : "The ACL was gone already.";
  }
  return html`<${ActionDialog} title="Remove an ACL" verb="Remove" danger twins=${[["REST", curl("DELETE", path)], ["CLI", shell(...cli)]]} act=${act} onClose=${onClose}>
    <p>${sentenceOf(acl)} This will hold no more; other ACLs may say the same.</p>
  </${ActionDialog}>`;
}
