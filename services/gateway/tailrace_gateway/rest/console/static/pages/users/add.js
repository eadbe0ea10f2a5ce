// Adds an ACL, with what it means and the topics that it bears on today.
import { html, useState } from "../../core/html.js";
import { curl } from "../../core/copyas.js";
import { ActionDialog, Field } from "../../core/dialog.js";
import { counted, shell } from "../../core/format.js";
import { ask, pathOf } from "../../core/rest.js";
import { part } from "../../core/state.js";
import { impliedBy, matches, OPERATIONS, sentenceOf, winners, wordsOf } from "./meaning.js";

const NAMED_MAX = 6;
const WORDS = { TOPIC: "topic", GROUP: "consumer group", CLUSTER: "cluster", TRANSACTIONAL_ID: "transactional id" };

function Preview({ acl, acls }) {
  const topics = acl.resource_type === "TOPIC" ? [...part("topics").rows.value.keys()].filter((name) => matches(acl, "TOPIC", name)).sort() : null;
  const denied = winners(acl, acls);
  return html`<div class="banner" role="status" aria-label="What it means"><p>${sentenceOf(acl)} ${impliedBy(acl)}</p>
    ${topics && html`<p>${topics.length ? `Today: ${counted(topics.length, "topic", "topics")}, ${topics.slice(0, NAMED_MAX).join(", ")}${topics.length > NAMED_MAX ? " …" : ""}.` : "No topic that you see has such a name today."}</p>`}
    ${denied.length > 0 && html`<p class="bad">An ACL that forbids wins: ${sentenceOf(denied[0])}</p>`}</div>`;
}

export function AddAcl({ acls, onClose }) {
  const [wish, setWish] = useState({ principal: "", permission: "ALLOW", type: "TOPIC", operation: "READ", name: "", pattern: "LITERAL", host: "*" });
  const set = (key) => (event) => setWish({ ...wish, [key]: event.target.value });
  const isCluster = wish.type === "CLUSTER";
  const operation = OPERATIONS[wish.type].includes(wish.operation) ? wish.operation : OPERATIONS[wish.type][0];
  const acl = {
    resource_type: wish.type, resource_name: isCluster ? "kafka-cluster" : wish.name, pattern_type: isCluster ? "LITERAL" : wish.pattern,
    principal: `User:${wish.principal}`, host: wish.host, operation, permission: wish.permission,
  };
  const ready = Boolean(wish.principal && acl.resource_name && wish.host);
  const path = pathOf("acls");
  const side = wish.permission === "DENY" ? "deny" : "allow";
  const cli = ["tailrace", "acl", "create", `--${side}-principal`, acl.principal, ...(acl.host === "*" ? [] : [`--${side}-host`, acl.host]), ...wordsOf(acl)];
  async function act() {
    await ask(path, { method: "POST", body: acl });
    return `The ACL is added. ${sentenceOf(acl)}`;
  }
  return html`<${ActionDialog} title="Add an ACL" verb="Add" ready=${ready} twins=${[["REST", curl("POST", path, acl)], ["CLI", shell(...cli)]]} act=${act} onClose=${onClose}>
    <${Field} label="User" hint="* is every user"><input autocomplete="off" value=${wish.principal} onInput=${set("principal")} /></${Field}>
    <${Field} label="Permission"><select value=${wish.permission} onChange=${set("permission")}><option value="ALLOW">may</option><option value="DENY">may not</option></select></${Field}>
    <${Field} label="Operation"><select value=${operation} onChange=${set("operation")}>${OPERATIONS[wish.type].map((one) => html`<option value=${one}>${one.toLowerCase().replaceAll("_", " ")}</option>`)}</select></${Field}>
    <${Field} label="On"><select value=${wish.type} onChange=${set("type")}>${Object.entries(WORDS).map(([type, word]) => html`<option value=${type}>${word}</option>`)}</select></${Field}>
    ${!isCluster && html`<${Field} label="Name is"><select value=${wish.pattern} onChange=${set("pattern")}><option value="LITERAL">exactly</option><option value="PREFIXED">anything that begins with</option></select></${Field}>
      <${Field} label="Name" hint=${wish.pattern === "LITERAL" ? "* is each of them" : ""}><input autocomplete="off" value=${wish.name} onInput=${set("name")} /></${Field}>`}
    <${Field} label="From host" hint="an address, a range, or * for anywhere"><input autocomplete="off" value=${wish.host} onInput=${set("host")} /></${Field}>
    ${ready && html`<${Preview} acl=${acl} acls=${acls} />`}
  </${ActionDialog}>`;
}
