// What pages know of the cluster: one stream of events for the open page, of the rows that changed. A part's rows are a
// Map in a signal; it is replaced when something in it has changed, so that what is drawn from it is drawn anew.
import { batch, computed, signal } from "./html.js";
import { checkLogin, clusterId } from "./rest.js";

const LATE_MS = 5000; // a gateway sends something every two seconds
const AGAIN_MS = 1000;
const PATIENCE_MS = 10000; // how long a silent stream is waited for before it is opened anew
const KEPT_PARTS = 12;

const parts = new Map(); // name -> Part, the one that was watched longest ago first
let hub = "";
let wanted = "";
let current = null; // the AbortController of the open stream

export const now = signal(Date.now());
export const heardAt = signal(null); // when the last event came
export const streamFailure = signal("");
setInterval(() => (now.value = Date.now()), 1000);

class Part {
  constructor() {
    this.rows = signal(new Map());
    this.confirmedAt = signal(null);
    this.failure = signal("");
    this.note = signal("");
    this.waitMs = signal(0); // between two looks
    this.revision = 0;
  }
}

export function part(name) {
  let found = parts.get(name);
  if (!found) parts.set(name, (found = new Part()));
  return found;
}

export const isSilent = computed(() => heardAt.value === null ? streamFailure.value !== "" : now.value - heardAt.value > LATE_MS);

// Watches these parts in place of those before; with them what the verdict on every page needs.
export function watch(names) {
  const all = [...new Set(["status", "transactions", "rights", ...names])];
  const key = JSON.stringify(all);
  if (key === wanted) return;
  wanted = key;
  for (const name of all) {
    const kept = part(name);
    parts.delete(name);
    parts.set(name, kept);
  }
  for (const name of [...parts.keys()].slice(0, Math.max(0, parts.size - KEPT_PARTS))) if (!all.includes(name)) parts.delete(name);
  current?.abort();
  keep(all, key);
}

async function keep(names, key) {
  while (wanted === key) {
    const aborted = (current = new AbortController());
    const started = Date.now();
    try {
      await readOnce(names, aborted);
    } catch (error) {
      if (wanted !== key) return;
      streamFailure.value = error.message;
    }
    if (wanted === key && (streamFailure.value || Date.now() - started < AGAIN_MS)) await new Promise((done) => setTimeout(done, AGAIN_MS));
  }
}

async function readOnce(names, aborted) {
  const query = new URLSearchParams([["hub", hub], ...names.map((name) => ["part", `${part(name).revision}:${name}`])]);
  let patience = setTimeout(() => aborted.abort(), PATIENCE_MS);
  try {
    const response = await fetch(`/console/events?${query}`, { signal: aborted.signal, credentials: "same-origin" }).catch((error) => {
      throw new Error(error.name === "AbortError" ? "no answer in time" : "the gateway cannot be reached");
    });
    checkLogin(response);
    if (!response.ok) throw new Error((await response.json().catch(() => ({}))).message ?? `HTTP ${response.status}`);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read().catch(() => {
        throw new Error("the connection to the gateway was lost");
      });
      if (done) return;
      clearTimeout(patience);
      patience = setTimeout(() => aborted.abort(), PATIENCE_MS);
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      if (events.length) batch(() => events.forEach(take));
    }
  } finally {
    clearTimeout(patience);
  }
}

function take(event) {
  const [first, second] = event.split("\n");
  const data = JSON.parse(second.slice("data: ".length));
  streamFailure.value = "";
  heardAt.value = now.value = Date.now();
  if (data.hub !== hub) {
    hub = data.hub;
    for (const kept of parts.values()) kept.revision = 0; // another hub's revisions say nothing here
  }
  if (first === "event: rows") takeRows(data);
  else takeBeat(data);
}

function takeRows({ part: name, reset, rows, gone, revision }) {
  const into = part(name);
  const next = reset ? new Map() : new Map(into.rows.value);
  for (const [key, row] of rows) next.set(key, row);
  for (const key of gone) next.delete(key);
  into.rows.value = next;
  if (revision !== null) into.revision = revision;
  else into.revision = 0; // cut here, it is asked for whole
  if (name === "rights" && next.has("may")) clusterId.value = next.get("may").cluster_id;
}

function takeBeat(data) {
  const at = Date.now();
  for (const [name, { age_ms, wait_ms, failure, note }] of Object.entries(data.parts)) {
    const into = part(name);
    if (age_ms !== null) into.confirmedAt.value = at - age_ms;
    into.failure.value = failure;
    into.note.value = note;
    into.waitMs.value = wait_ms;
  }
}
