// Why a group is late, in sentences: which partition, which member, since when. Only what the rows say.
import { clock, count, counted, duration } from "../../core/format.js";

const NAMED_MAX = 3;

export function reasons(group, members, partitions, history, now) {
  const behind = partitions.filter((row) => row.lag > 0);
  const unknown = partitions.filter((row) => row.committed !== null && row.lag === null);
  const found = [];
  if (unknown.length) found.push(["warn", `The lag of ${counted(unknown.length, "partition is", "partitions are")} not known, no answer: ${names(unknown)}.`]);
  if (!behind.length) {
    if (!unknown.length) found.push(["good", "It is not late: it has read everything."]);
    return found;
  }
  if (!members.length) found.push(["bad", "It has no member: no record is read."]);
  else if (group.state !== "STABLE") found.push(["warn", `It is ${group.state.toLowerCase().replaceAll("_", " ")}: members do not read before it is stable.`]);
  const idle = behind.filter((row) => members.length && row.member_id === null);
  if (idle.length) found.push(["bad", `No member reads ${names(idle)}.`]);
  for (const row of behind.filter((one) => one.member_id !== null).slice(0, NAMED_MAX)) {
    const since = row.seconds === null ? "" : `, since ${clock(now - row.seconds * 1000)} (${duration(row.seconds)})`;
    found.push(["warn", `${row.topic}-${row.partition} is ${counted(row.lag, "record", "records")} behind${since}. Member ${row.client} reads it.`]);
  }
  const trend = trendOf(history);
  if (trend !== null && members.length) found.push([trend > 0 ? "bad" : "good", trend > 0 ? `It falls behind by ${count(Math.ceil(trend))} records a second.` : trend < 0 ? `It catches up by ${count(Math.ceil(-trend))} records a second.` : "Its lag stays as it is."]);
  const [worst] = behind;
  const all = behind.reduce((sum, row) => sum + row.lag, 0);
  if (partitions.length > 1 && worst.lag > all * 0.8 && behind.length > 1) found.push(["warn", `Most of the lag is in one partition, ${worst.topic}-${worst.partition}: its keys come most often, or its member is slow.`]);
  return found;
}

function names(rows) {
  return rows.slice(0, NAMED_MAX).map((row) => `${row.topic}-${row.partition}`).join(", ") + (rows.length > NAMED_MAX ? " …" : "");
}

// Records a second over the looks of the last half minute.
function trendOf({ times, values }) {
  const last = times.length - 1;
  const first = times.findIndex((time) => times[last] - time < 30);
  return last - first < 2 ? null : (values[last] - values[first]) / (times[last] - times[first]);
}
