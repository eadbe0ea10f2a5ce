// Sets, changes and removes a quota (AlterClientQuotas).
import { html, useState } from "../../core/html.js";
import { curl } from "../../core/copyas.js";
import { ActionDialog, Field } from "../../core/dialog.js";
import { shell } from "../../core/format.js";
import { ask, pathOf, verbOf } from "../../core/rest.js";

const KINDS = { "client-id": ["client-id"], user: ["user"], "user, client-id": ["user", "client-id"], ip: ["ip"] };
const WORDS = { user: "user", "client-id": "client id", ip: "IP address" };
const RATES = ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"];
const NAMES = { "client-id": RATES, user: RATES, "user, client-id": RATES, ip: ["connection_creation_rate"] };

// entity: [type, name] pairs; a name of null is the default of all that have none of their own.
export function entityName(entity) {
  return entity.map(([kind, name]) => (name === null ? `every ${WORDS[kind]}` : `${WORDS[kind]} ${name}`)).join(", ");
}

function words(entity) {
  return entity.flatMap(([kind, name]) => (name === null ? [`--default-${kind}`] : [`--${kind}`, name]));
}

function alteration(entity, name, value) {
  const change = { entity: entity.map(([kind, of]) => ({ entity_type: kind, ...(of === null ? {} : { entity_name: of }) })), name };
  return { data: [value === null ? change : { ...change, value }] };
}

export function SetQuota({ row, onClose }) {
  const isNew = !row.entity;
  const [kind, setKind] = useState("client-id");
  const [names, setNames] = useState({});
  const [chosen, setChosen] = useState("producer_byte_rate");
  const [typed, setTyped] = useState(isNew ? "" : String(row.value));
  const entity = isNew ? KINDS[kind].map((one) => [one, names[one] || null]) : row.entity;
  const name = isNew ? (NAMES[kind].includes(chosen) ? chosen : NAMES[kind][0]) : row.name;
  const value = Number(typed);
  const path = verbOf(pathOf("quotas"), "alter");
  const body = alteration(entity, name, value);
  async function act() {
    await ask(path, { method: "POST", body });
    return `${name} of ${entityName(entity)} is ${value}.`;
  }
  return html`<${ActionDialog} title=${isNew ? "Set a quota" : `Change ${name}`} verb="Set" ready=${typed !== "" && value > 0} twins=${[["REST", curl("POST", path, body)], ["CLI", shell("tailrace", "quota", "set", ...words(entity), `${name}=${typed || "VALUE"}`)]]} act=${act} onClose=${onClose}>
    ${isNew && html`<${Field} label="Of"><select value=${kind} onChange=${(event) => setKind(event.target.value)}>${Object.entries(KINDS).map(([one, parts]) => html`<option value=${one}>${parts.map((part) => WORDS[part]).join(" and ")}</option>`)}</select></${Field}>
      ${KINDS[kind].map((one) => html`<${Field} key=${one} label=${`Name of the ${WORDS[one]}`} hint="empty: each one that has no quota of its own"><input autocomplete="off" value=${names[one] ?? ""} onInput=${(event) => setNames({ ...names, [one]: event.target.value })} /></${Field}>`)}
      <${Field} label="Quota"><select value=${name} onChange=${(event) => setChosen(event.target.value)}>${NAMES[kind].map((one) => html`<option value=${one}>${one}</option>`)}</select></${Field}>`}
    ${!isNew && html`<p class="diff">${entityName(entity)}<br /><del>- ${name}=${row.value}</del>${typed !== "" && html`<br /><ins>+ ${name}=${typed}</ins>`}</p>`}
    <${Field} label="Limit" hint=${name.endsWith("_byte_rate") ? "bytes a second" : name === "request_percentage" ? "per cent of one thread's time" : "a second"}><input type="number" min="0" step="any" value=${typed} onInput=${(event) => setTyped(event.target.value)} /></${Field}>
  </${ActionDialog}>`;
}

export function RemoveQuota({ row, onClose }) {
  const path = verbOf(pathOf("quotas"), "alter");
  const body = alteration(row.entity, row.name, null);
  async function act() {
    await ask(path, { method: "POST", body });
    return `${row.name} of ${entityName(row.entity)} is removed.`;
  }
  return html`<${ActionDialog} title="Remove ${row.name}" verb="Remove" danger twins=${[["REST", curl("POST", path, body)], ["CLI", shell("tailrace", "quota", "delete", ...words(row.entity), row.name)]]} act=${act} onClose=${onClose}>
    <p>${entityName(row.entity)}: the limit of ${row.value} is removed. A default may hold instead.</p>
  </${ActionDialog}>`;
}
