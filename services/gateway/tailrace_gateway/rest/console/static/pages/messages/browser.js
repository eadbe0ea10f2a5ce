// The records of one topic: from where, which of them, and the table of what was found.
import { html, useEffect, useRef, useState } from "../../core/html.js";
import { CopyAs } from "../../core/copyas.js";
import { Field } from "../../core/dialog.js";
import { clock, count, counted, moment, percent } from "../../core/format.js";
import { clusterId } from "../../core/rest.js";
import { mayTopic } from "../../core/rights.js";
import { href, note } from "../../core/router.js";
import { part } from "../../core/state.js";
import { LongTable } from "../../core/table.js";
import { ProduceRecord } from "./produce.js";
import { SCANNED_MAX, search, SHOWN_MAX, tail } from "./reading.js";
import { OneRecord } from "./record.js";
import { ENCODINGS, isComplete, queryOf, STARTS, twinsOf, viewOf } from "./view.js";

const NOTHING = { records: [], scanned: 0, total: 0, done: false, isEnd: false, cursor: "", at: null, failure: "" };
const SHORT_CHARS = 200;

function short(content, none) {
  if (content === null) return html`<span class="soft">${none}</span>`;
  const text = String(content.data);
  return text.length > SHORT_CHARS ? `${text.slice(0, SHORT_CHARS)}…` : text;
}

const columnsOf = (onOpen) => [
  { key: "place", title: "Offset", cell: (row) => html`<button type="button" class="plain" aria-label="Open ${row.partition_id}:${row.offset}" onClick=${() => onOpen(row)}>${row.partition_id}:${row.offset}</button>` },
  { key: "time", title: "Time (UTC)", wide: true, cell: (row) => moment(row.timestamp_ms) },
  { key: "key", title: "Key", cell: (row) => short(row.key, "none") },
  { key: "value", title: "Value", cell: (row) => short(row.value, "tombstone") },
  { key: "headers", title: "Headers", number: true, wide: true, cell: (row) => count(row.headers.length) },
];

// Later ones first where the view asks for what is new.
function ordered(records, { start }) {
  const sign = start === "newest" || start === "latest" ? -1 : 1;
  return [...records].sort((a, b) => sign * (a.timestamp_ms - b.timestamp_ms || a.partition_id - b.partition_id || a.offset - b.offset)).map((row) => ({ key: `${row.partition_id}:${row.offset}`, ...row }));
}

function Progress({ state, view }) {
  if (state.failure) return html`<p class="bad" role="alert">${state.failure}</p>`;
  if (view.start === "latest") return html`<p class="soft" role="status">Live: ${counted(state.scanned, "record has", "records have")} come, ${count(state.records.length)} shown.</p>`;
  const isFiltered = view.key !== "" || view.text !== "";
  const looked = isFiltered ? `, looked at ${count(state.scanned)} of ${count(state.total)} (${percent(state.scanned, state.total)})` : "";
  const bound = !state.done || state.isEnd ? "" : state.scanned >= SCANNED_MAX ? ` A search looks at ${count(SCANNED_MAX)} records.` : state.records.length >= SHOWN_MAX ? ` ${count(SHOWN_MAX)} are shown at most.` : "";
  return html`<div><p class="soft" role="status">${state.done ? "" : "Reading: "}${counted(state.records.length, "record", "records")} found${looked}${state.done && state.isEnd ? ", up to the end" : ""}.${bound}${state.at && ` As of ${clock(state.at)}.`}</p>
    ${!state.done && isFiltered && html`<progress max=${Math.max(1, state.total)} value=${state.scanned} aria-label="Looked at"></progress>`}</div>`;
}

export function Browser({ name, query }) {
  const view = viewOf(query);
  const [state, setState] = useState(NOTHING);
  const [round, setRound] = useState({ number: 0, cursor: "" });
  const [opened, setOpened] = useState(null);
  const [producing, setProducing] = useState(false);
  const aborted = useRef(null);
  const key = JSON.stringify(view);
  const cluster = clusterId.value;
  const partitions = [...part(`topic:${name}`).rows.value.keys()].sort((a, b) => a - b);
  useEffect(() => {
    if (!cluster || !isComplete(view)) return undefined;
    const control = (aborted.current = new AbortController());
    const { signal: abort } = control;
    setState(NOTHING);
    const taken = (next) => abort.aborted || setState({ ...next, at: Date.now(), failure: "" });
    const coming = (found, scanned) => abort.aborted || setState((old) => ({ ...old, records: [...old.records, ...found].slice(-SHOWN_MAX), scanned: old.scanned + scanned, at: Date.now() }));
    const wait = setTimeout(() => {
      const reading = view.start === "latest" ? tail(name, view, { abort, onRecords: coming }) : search(name, view, { abort, cursor: round.cursor, onState: taken });
      reading.catch((error) => abort.aborted || setState((old) => ({ ...old, done: true, failure: error.message })));
    }, 250); // a reader types
    return () => {
      clearTimeout(wait);
      control.abort();
    };
  }, [name, key, cluster, round]);
  const change = (field, source = "value") => (event) => {
    setRound({ number: 0, cursor: "" });
    const next = { ...view, [field]: event.target[source] };
    note(queryOf(field === "start" ? { ...next, at: "" } : next)); // an offset is no moment
  };
  const again = (cursor) => setRound((old) => ({ number: old.number + 1, cursor }));
  const needs = view.start === "offset" ? "number" : view.start === "time" ? "datetime-local" : "";
  return html`<p class="soft"><a href=${href(["topics", name])}>Topic ${name}</a></p>
    <h1>Messages of ${name}</h1>
    <form class="tools" role="search" onSubmit=${(event) => event.preventDefault()}>
      <${Field} label="From"><select value=${view.start} onChange=${change("start")}>${Object.entries(STARTS).map(([value, text]) => html`<option value=${value}>${text}</option>`)}</select></${Field}>
      ${needs && html`<${Field} key=${needs} label=${STARTS[view.start]}><input type=${needs} step=${needs === "number" ? 1 : "any"} min=${needs === "number" ? 0 : undefined} value=${view.at} onInput=${change("at")} /></${Field}>`}
      <${Field} label="Partition"><select value=${view.partition} onChange=${change("partition")}><option value="">all</option>${partitions.map((one) => html`<option value=${one}>${one}</option>`)}</select></${Field}>
      <${Field} label="Key is"><input type="search" value=${view.key} onInput=${change("key")} /></${Field}>
      <${Field} label="Contains"><input type="search" value=${view.text} onInput=${change("text")} /></${Field}>
      <${Field} label="Shown as"><select value=${view.as} onChange=${change("as")}>${ENCODINGS.map((one) => html`<option value=${one}>${one}</option>`)}</select></${Field}>
      <label><input type="checkbox" checked=${view.committed} onChange=${change("committed", "checked")} /> read committed</label>
    </form>
    <div class="tools">
      <button type="button" onClick=${() => again("")}>Read again</button>
      <button type="button" disabled=${!state.done || state.isEnd || !state.cursor} onClick=${() => again(state.cursor)}>Go on</button>
      ${!state.done && html`<button type="button" onClick=${() => {
        aborted.current?.abort();
        setState((old) => ({ ...old, done: true, failure: "Stopped." }));
      }}>Stop</button>`}
      ${mayTopic(name, "WRITE") && html`<button type="button" class="primary" onClick=${() => setProducing(true)}>Produce a record</button>`}
    </div>
    ${isComplete(view) ? html`<${Progress} state=${state} view=${view} />` : html`<p class="soft" role="status">Say from where.</p>`}
    <${LongTable} label="Records" columns=${columnsOf(setOpened)} rows=${ordered(state.records, view)} empty=${state.done ? "No record is like that." : view.start === "latest" ? "Waiting for records." : "Reading"} />
    <${CopyAs} twins=${twinsOf(name, view)} />
    ${opened && html`<${OneRecord} record=${opened} onClose=${() => setOpened(null)} />`}
    ${producing && html`<${ProduceRecord} name=${name} partitions=${partitions} onClose=${() => setProducing(false)} onDone=${() => view.start !== "latest" && again("")} />`}`;
}
