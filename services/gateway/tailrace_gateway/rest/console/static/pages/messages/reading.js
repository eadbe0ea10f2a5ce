// Reads records: pages up to a bound, with what is left of it, or live ones as they come.
import { send } from "../../core/rest.js";
import { matches, recordsPath } from "./view.js";

export const SHOWN_MAX = 500; // records that a view holds
export const SCANNED_MAX = 100000; // records that one search looks at
const PAGE = 1000;

// Calls onState with {records, scanned, total, done, cursor} as pages come. The window is what lies between the start
// and the ends that the first page knew, at most SCANNED_MAX records of it.
export async function search(name, view, { cursor: from, abort, onState }) {
  const isFiltered = view.key !== "" || view.text !== "";
  const records = [];
  let cursor = from;
  let scanned = 0;
  let ahead = null; // records between the start and the end
  for (;;) {
    const limit = isFiltered ? PAGE : Math.min(PAGE, SHOWN_MAX - records.length);
    const response = await send(recordsPath(name, view, { cursor, limit }), { signal: abort });
    const page = await response.json();
    ahead ??= page.partitions.reduce((sum, one) => sum + Math.max(0, one.end_offset - one.start_offset), 0);
    scanned += page.scanned_records;
    for (const record of page.data) if (matches(record, view) && records.length < SHOWN_MAX) records.push(record);
    cursor = page.cursor;
    const isEnd = page.metadata.next === null;
    const isFull = records.length >= SHOWN_MAX || scanned >= SCANNED_MAX;
    const done = isEnd || isFull || !isFiltered;
    onState({ records: [...records], scanned, total: Math.min(ahead, SCANNED_MAX), done, isEnd, cursor });
    if (done) return;
  }
}

// Calls onRecords with what comes, until aborted or the connection is lost. A stream that the gateway ends is followed by the next.
export async function tail(name, view, { abort, onRecords }) {
  let cursor = "";
  while (!abort.aborted) {
    const path = recordsPath(name, view, cursor ? { cursor } : {});
    const response = await send(path, { signal: abort, accept: "text/event-stream" });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      const found = [];
      for (const event of events) {
        const fields = Object.fromEntries(event.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
        if (fields.id) cursor = fields.id;
        if (fields.event === "record") found.push(JSON.parse(fields.data));
        if (fields.event === "error") throw new Error(JSON.parse(fields.data).message);
      }
      if (found.length) onRecords(found.filter((record) => matches(record, view)), found.length);
    }
  }
}
