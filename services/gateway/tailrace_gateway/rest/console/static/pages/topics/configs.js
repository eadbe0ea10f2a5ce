// Configs of a topic. Changes are collected, shown as a difference, and applied together or not at all.
import { html, useEffect, useState } from "../../core/html.js";
import { curl } from "../../core/copyas.js";
import { ActionDialog } from "../../core/dialog.js";
import { clock, counted, shell, UNKNOWN } from "../../core/format.js";
import { ask, clusterId, pathOf, verbOf } from "../../core/rest.js";
import { mayTopic } from "../../core/rights.js";
import { Table } from "../../core/table.js";

const RESET = null; // in place of a value: back to what holds without the topic's own

export function Configs({ name }) {
  const [known, setKnown] = useState({ rows: null, at: null, failure: "" });
  const [changes, setChanges] = useState(new Map());
  const [search, setSearch] = useState("");
  const [reviewing, setReviewing] = useState(false);
  async function load() {
    try {
      const { data } = await ask(pathOf("topics", name, "configs"));
      setKnown({ rows: data, at: Date.now(), failure: "" });
    } catch (error) {
      setKnown((old) => ({ ...old, failure: error.message }));
    }
  }
  useEffect(() => {
    if (clusterId.value) load();
  }, [name, clusterId.value]);
  const change = (key, value) => setChanges((old) => {
    const next = new Map(old);
    const row = known.rows.find((one) => one.name === key);
    if (value === undefined || value === row.value) next.delete(key);
    else next.set(key, value);
    return next;
  });
  const mayAlter = mayTopic(name, "ALTER_CONFIGS");
  const shown = (known.rows ?? []).filter((row) => row.name.includes(search.trim())).sort((a, b) => Number(b.source === "DYNAMIC_TOPIC_CONFIG") - Number(a.source === "DYNAMIC_TOPIC_CONFIG"));
  const columns = [
    { key: "name", title: "Config", cell: (row) => html`<code>${row.name}</code>` },
    { key: "value", title: "Value", cell: (row) => (row.is_sensitive || row.is_read_only || !mayAlter ? (row.value ?? (row.is_sensitive ? "hidden" : UNKNOWN)) : html`<input aria-label=${row.name} value=${changes.get(row.name) === RESET ? "" : (changes.get(row.name) ?? row.value ?? "")} placeholder=${changes.get(row.name) === RESET ? "back to the default" : ""} onInput=${(event) => change(row.name, event.target.value)} />`) },
    { key: "source", title: "Source", wide: true, cell: (row) => row.source.toLowerCase().replaceAll("_", " ") },
    { key: "reset", title: "Default", cell: (row) => mayAlter && row.source === "DYNAMIC_TOPIC_CONFIG" && html`<button type="button" onClick=${() => change(row.name, RESET)}>Reset<span class="hidden"> ${row.name}</span></button>` },
  ];
  return html`<div class="tools">
      <label class="field"><span>Search configs</span><input type="search" value=${search} onInput=${(event) => setSearch(event.target.value)} /></label>
      ${mayAlter && html`<button type="button" class="primary" disabled=${!changes.size} onClick=${() => setReviewing(true)}>Review ${counted(changes.size, "change", "changes")}</button>
      <button type="button" disabled=${!changes.size} onClick=${() => setChanges(new Map())}>Discard</button>`}
      <span class="soft">${known.at && `as of ${clock(known.at)}`}</span>${known.failure && html`<span class="bad">${known.failure}</span>`}
    </div>
    <${Table} label="Configs" columns=${columns} rows=${shown} rowKey=${(row) => row.name} empty=${known.rows ? "No config is named like that." : "Loading"} />
    ${reviewing && html`<${Review} name=${name} changes=${changes} rows=${known.rows} onClose=${() => setReviewing(false)} onDone=${() => {
      setChanges(new Map());
      load();
    }} />`}`;
}

function Review({ name, changes, rows, onClose, onDone }) {
  const data = [...changes].map(([key, value]) => (value === RESET ? { name: key, operation: "DELETE" } : { name: key, value }));
  const path = verbOf(pathOf("topics", name, "configs"), "alter");
  const [refusal, setRefusal] = useState(undefined); // not known yet
  useEffect(() => {
    ask(path, { method: "POST", body: { data, validate_only: true } }).then(() => setRefusal(""), (error) => setRefusal(error.message));
  }, []);
  const set = [...changes].filter(([, value]) => value !== RESET).map(([key, value]) => `${key}=${value}`);
  const unset = [...changes].filter(([, value]) => value === RESET).map(([key]) => key);
  const cli = [];
  if (set.length) cli.push(shell("tailrace", "config", "set", "topic", name, ...set));
  if (unset.length) cli.push(shell("tailrace", "config", "unset", "topic", name, ...unset));
  async function act() {
    await ask(path, { method: "POST", body: { data } });
    onDone();
    return `${counted(data.length, "config", "configs")} of ${name} ${data.length === 1 ? "is" : "are"} changed.`;
  }
  return html`<${ActionDialog} title="Change configs of ${name}" verb="Apply" ready=${refusal === ""} act=${act} onClose=${onClose}
    twins=${[["REST", curl("POST", path, { data })], ["CLI", cli.join(" && ")]]}>
    <pre class="diff">${[...changes].map(([key, value]) => {
      const row = rows.find((one) => one.name === key);
      return html`<del>- ${key}=${row.value ?? UNKNOWN} (${row.source.toLowerCase().replaceAll("_", " ")})\n</del><ins>+ ${key}${value === RESET ? " back to the default" : `=${value}`}\n</ins>`;
    })}</pre>
    <p class=${refusal ? "bad" : "soft"} role="status">${refusal === undefined ? "The cluster is asked whether it takes this." : refusal || "The cluster takes this."}</p>
  </${ActionDialog}>`;
}
