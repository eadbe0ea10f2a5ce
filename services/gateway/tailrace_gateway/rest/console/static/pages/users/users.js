// The users, and what can be done to them.
import { html, useState } from "../../core/html.js";
import { curl } from "../../core/copyas.js";
import { ActionDialog, Field } from "../../core/dialog.js";
import { shell } from "../../core/format.js";
import { ask, pathOf } from "../../core/rest.js";
import { mayCluster, userName } from "../../core/rights.js";
import { Age } from "../../core/shell.js";
import { part } from "../../core/state.js";
import { LongTable } from "../../core/table.js";

const SECRET = "PASSWORD"; // stands in a command in place of what was typed

const columnsOf = (mayAlter, onPassword, onDelete) => [
  { key: "name", title: "User", cell: (row) => row.key },
  { key: "credentials", title: "Logs in by", cell: (row) => row.mechanisms.join(", ") },
  { key: "do", title: "", cell: (row) => mayAlter && html`<button type="button" class="plain" aria-label="Change the password of ${row.key}" onClick=${() => onPassword(row.key)}>Password</button> <button type="button" class="plain" aria-label="Delete ${row.key}" onClick=${() => onDelete(row.key)}>Delete</button>` },
];

export function Users() {
  const [creating, setCreating] = useState(false);
  const [changed, setChanged] = useState(null);
  const [deleted, setDeleted] = useState(null);
  const { rows, confirmedAt } = part("users");
  const all = [...rows.value].sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, row]) => ({ key, ...row }));
  const mayAlter = mayCluster("ALTER");
  return html`<h2>Users</h2><${Age} of=${["users"]} />
    <div class="tools">${mayAlter && html`<button type="button" class="primary" onClick=${() => setCreating(true)}>Create a user</button>`}</div>
    <${LongTable} label="Users" columns=${columnsOf(mayAlter, setChanged, setDeleted)} rows=${all} empty=${confirmedAt.value === null ? "Not known" : "No user has a password."} />
    ${creating && html`<${CreateUser} onClose=${() => setCreating(false)} />`}
    ${changed !== null && html`<${ChangePassword} name=${changed} onClose=${() => setChanged(null)} />`}
    ${deleted !== null && html`<${DeleteUser} name=${deleted} onClose=${() => setDeleted(null)} />`}`;
}

function Passwords({ first, second, onFirst, onSecond }) {
  return html`<${Field} label="Password"><input type="password" autocomplete="new-password" value=${first} onInput=${(event) => onFirst(event.target.value)} /></${Field}>
    <${Field} label="Password again" hint=${second && first !== second ? "not the same" : ""}><input type="password" autocomplete="new-password" value=${second} onInput=${(event) => onSecond(event.target.value)} /></${Field}>`;
}

function CreateUser({ onClose }) {
  const [name, setName] = useState("");
  const [first, setFirst] = useState("");
  const [second, setSecond] = useState("");
  const path = pathOf("users");
  const cli = `${shell("printf", "%s\\n", SECRET)} | ${shell("tailrace", "user", "create", name || "NAME")}`;
  async function act() {
    await ask(path, { method: "POST", body: { user_name: name, password: first } });
    return `User ${name} is created. It may do what ACLs allow.`;
  }
  return html`<${ActionDialog} title="Create a user" verb="Create" ready=${Boolean(name && first && first === second)} twins=${[["REST", curl("POST", path, { user_name: name, password: SECRET })], ["CLI", cli]]} act=${act} onClose=${onClose}>
    <${Field} label="Name"><input autocomplete="off" value=${name} onInput=${(event) => setName(event.target.value)} /></${Field}>
    <${Passwords} first=${first} second=${second} onFirst=${setFirst} onSecond=${setSecond} />
  </${ActionDialog}>`;
}

function ChangePassword({ name, onClose }) {
  const [first, setFirst] = useState("");
  const [second, setSecond] = useState("");
  const path = pathOf("users", name, "password");
  const cli = `${shell("printf", "%s\\n", SECRET)} | ${shell("tailrace", "user", "password", name)}`;
  async function act() {
    await ask(path, { method: "PUT", body: { password: first } });
    return `The password of ${name} is changed.`;
  }
  return html`<${ActionDialog} title="Change the password of ${name}" verb="Change" ready=${Boolean(first && first === second)} twins=${[["REST", curl("PUT", path, { password: SECRET })], ["CLI", cli]]} act=${act} onClose=${onClose}>
    <p>Connections that are open stay.${`User:${name}` === userName() && " You will log in anew with it."}</p>
    <${Passwords} first=${first} second=${second} onFirst=${setFirst} onSecond=${setSecond} />
  </${ActionDialog}>`;
}

function DeleteUser({ name, onClose }) {
  const [typed, setTyped] = useState("");
  const path = pathOf("users", name);
  async function act() {
    await ask(path, { method: "DELETE" });
    return `User ${name} is deleted.`;
  }
  return html`<${ActionDialog} title="Delete ${name}" verb="Delete" danger ready=${typed === name} twins=${[["REST", curl("DELETE", path)], ["CLI", shell("tailrace", "user", "delete", name, "--yes")]]} act=${act} onClose=${onClose}>
    <p>It can log in no more. Connections that are open stay, and so do its ACLs.${`User:${name}` === userName() && html` <strong class="bad">This is the user that you are.</strong>`}</p>
    <${Field} label="Type the user's name"><input autocomplete="off" value=${typed} onInput=${(event) => setTyped(event.target.value)} /></${Field}>
  </${ActionDialog}>`;
}
