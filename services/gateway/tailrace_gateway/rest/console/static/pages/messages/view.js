// What is looked at, as the address has it, as REST asks for it, and as commands of kcat and tailrace say it.
import { shell } from "../../core/format.js";
import { curl } from "../../core/copyas.js";
import { pathOf } from "../../core/rest.js";

export const STARTS = { newest: "the newest", earliest: "the first", offset: "an offset", time: "a moment (UTC)", latest: "live, what comes now" };
export const ENCODINGS = ["text", "hex", "base64"];
const NEWEST_OF_EACH = 50;

export function viewOf(query) {
  return {
    start: query.get("start") in STARTS ? query.get("start") : "newest",
    at: query.get("at") ?? "",
    partition: query.get("partition") ?? "",
    key: query.get("key") ?? "",
    text: query.get("text") ?? "",
    as: ENCODINGS.includes(query.get("as")) ? query.get("as") : "text",
    committed: query.get("committed") === "1",
  };
}

export function queryOf(view) {
  const { start, as, committed } = view;
  return { ...view, start: start === "newest" ? "" : start, as: as === "text" ? "" : as, committed: committed && 1 };
}

function fromOf({ start, at }) {
  if (start === "newest") return String(-NEWEST_OF_EACH);
  if (start === "offset") return at || "0";
  return start === "time" ? `s@${at}${/Z$|[+-]\d\d:\d\d$/.test(at) ? "" : "Z"}` : start;
}

export function isComplete({ start, at }) {
  return start === "offset" ? /^\d+$/.test(at) : start !== "time" || !Number.isNaN(Date.parse(`${at}Z`)) || !Number.isNaN(Date.parse(at));
}

// The address of records; cursor: where an earlier answer ended.
export function recordsPath(name, view, { cursor, limit, scanned } = {}) {
  const pairs = cursor ? [["cursor", cursor]] : [["from", fromOf(view)]];
  if (!cursor && view.partition !== "") pairs.push(["partitions", view.partition]);
  if (limit) pairs.push(["limit", String(limit)]);
  if (scanned) pairs.push(["max_scanned_records", String(scanned)]);
  if (view.committed) pairs.push(["isolation", "read_committed"]);
  pairs.push(["key_encoding", view.as], ["value_encoding", view.as], ["header_encoding", "text"]);
  return `${pathOf("topics", name, "records")}?${new URLSearchParams(pairs)}`;
}

export function twinsOf(name, view) {
  const isLive = view.start === "latest";
  const path = recordsPath(name, view, isLive ? {} : { limit: 100 });
  const rest = isLive ? `${curl("GET", path)} -N -H 'Accept: text/event-stream'` : curl("GET", path);
  const where = { newest: `-${NEWEST_OF_EACH}`, earliest: "beginning", latest: "end", offset: view.at || "0", time: `s@${Date.parse(`${view.at}Z`) || 0}` }[view.start];
  const partition = view.partition === "" ? [] : ["-p", view.partition];
  const server = `${location.hostname}:9092`;
  const kcat = shell("kcat", "-C", "-b", server, "-t", name, ...partition, "-o", where, ...(isLive ? [] : ["-e"]), "-f", "%p %o %k %s\\n");
  const start = view.start === "earliest" ? "earliest" : view.start === "latest" ? "latest" : where;
  const cli = shell("tailrace", "consume", name, "--json", "-o", start, ...partition, ...(isLive ? [] : ["--exit"]), ...(view.committed ? ["--read-committed"] : []));
  return [["REST", rest], ["CLI", cli], ["kcat", kcat]];
}

// Whether a record is what the filter asks for: the key is equal, the text is in the key, the value or a header.
export function matches(record, { key, text }) {
  if (key !== "" && record.key?.data !== key) return false;
  if (text === "") return true;
  return [record.key, record.value, ...record.headers.map((header) => header.value)].some((one) => String(one?.data ?? "").includes(text));
}
