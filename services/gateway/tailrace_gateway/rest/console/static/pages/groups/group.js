// One group: why it is late, its lag over time, members and the partitions that they read.
import { html, useMemo, useState } from "../../core/html.js";
import { count, duration, UNKNOWN } from "../../core/format.js";
import { History, Plot } from "../../core/plot.js";
import { href } from "../../core/router.js";
import { mayGroup } from "../../core/rights.js";
import { Age } from "../../core/shell.js";
import { part } from "../../core/state.js";
import { LongTable, Table } from "../../core/table.js";
import { DeleteGroup } from "./remove.js";
import { ResetGroup } from "./reset.js";
import { reasons } from "./reasons.js";

const histories = new Map(); // by group
const HISTORIES_MAX = 20;
const DIALOGS = { reset: ResetGroup, delete: DeleteGroup };

function historyOf(name) {
  if (!histories.has(name)) histories.set(name, { records: new History(), seconds: new History() });
  if (histories.size > HISTORIES_MAX) histories.delete(histories.keys().next().value);
  return histories.get(name);
}

const PARTITIONS = [
  { key: "topic", title: "Partition", cell: (row) => html`<a href=${href(["topics", row.topic])}>${row.topic}-${row.partition}</a>` },
  { key: "member", title: "Member", cell: (row) => (row.client ? html`<span title=${row.member_id}>${row.client}</span>` : html`<span class="warn">none</span>`) },
  { key: "committed", title: "Committed", number: true, wide: true, cell: (row) => count(row.committed) },
  { key: "end", title: "End", number: true, wide: true, cell: (row) => count(row.end) },
  { key: "lag", title: "Lag", number: true, cell: (row) => count(row.lag) },
  { key: "seconds", title: "Behind", number: true, cell: (row) => duration(row.seconds) },
];
const MEMBERS = [
  { key: "client", title: "Client id", cell: (row) => row.client_id },
  { key: "host", title: "Host", cell: (row) => row.host },
  { key: "id", title: "Member id", wide: true, cell: (row) => row.member_id },
  { key: "instance", title: "Instance id", wide: true, cell: (row) => row.instance_id ?? UNKNOWN },
  { key: "partitions", title: "Partitions", number: true, cell: (row) => count(row.partitions) },
  { key: "lag", title: "Lag", number: true, cell: (row) => count(row.lag) },
];

// A sum, or what is the most, only where every partition with a commit is known: reasons.js names the others.
function lagOf(rows) {
  const committed = rows.filter((row) => row.committed !== null);
  return !committed.length || committed.some((row) => row.lag === null) ? null : committed.reduce((sum, row) => sum + row.lag, 0);
}

function behindOf(rows) {
  const committed = rows.filter((row) => row.committed !== null);
  return !committed.length || committed.some((row) => row.seconds === null) ? null : Math.max(...committed.map((row) => row.seconds));
}

export function OneGroup({ name }) {
  const [open, setOpen] = useState("");
  const watched = part(`group:${name}`);
  const rows = watched.rows.value;
  const group = rows.get("group");
  const members = [...rows].filter(([key]) => key.startsWith("member:")).map(([, row]) => row);
  const clients = new Map(members.map((row) => [row.member_id, row.client_id]));
  const partitions = [...rows].filter(([key]) => key.startsWith("partition:")).map(([key, row]) => ({ key, ...row, client: clients.get(row.member_id) }));
  partitions.sort((a, b) => (b.lag ?? 0) - (a.lag ?? 0) || (a.key < b.key ? -1 : 1));
  for (const member of members) {
    const own = partitions.filter((row) => row.member_id === member.member_id);
    Object.assign(member, { partitions: own.length, lag: lagOf(own) });
  }
  const history = useMemo(() => historyOf(name), [name]);
  const lag = lagOf(partitions);
  const behind = behindOf(partitions);
  const at = watched.confirmedAt.value;
  useMemo(() => {
    history.records.add(at, lag);
    history.seconds.add(at, behind);
  }, [Math.round(at / 1000)]);
  const Open = DIALOGS[open];
  return html`<p class="soft"><a href=${href(["groups"])}>Groups</a></p>
    <h1>${name}</h1><${Age} of=${[`group:${name}`]} />
    <dl class="facts">
      <div><dt>State</dt><dd>${group ? group.state.toLowerCase().replaceAll("_", " ") : UNKNOWN}</dd></div>
      <div><dt>Type</dt><dd>${group ? group.type.toLowerCase() : UNKNOWN}</dd></div>
      <div><dt>Assignor</dt><dd>${group?.assignor || UNKNOWN}</dd></div>
      <div><dt>Members</dt><dd>${group ? count(members.length) : UNKNOWN}</dd></div>
      <div><dt>Lag</dt><dd>${count(lag)}</dd></div>
      <div><dt>Behind</dt><dd>${duration(behind)}</dd></div>
    </dl>
    <div class="tools">
      ${mayGroup(name, "READ") && html`<button type="button" onClick=${() => setOpen("reset")}>Reset offsets</button>`}
      ${mayGroup(name, "DELETE") && html`<button type="button" onClick=${() => setOpen("delete")}>Delete</button>`}
    </div>
    <h2>Why is it late</h2>
    <ul class="problems" aria-label="Why it is late">${group && reasons(group, members, partitions, history.records, at).map(([level, text]) => html`<li key=${text} class=${level}>${text}</li>`)}</ul>
    <h2>Lag over time</h2>
    <div class="plots"><${Plot} label="Records" history=${history.records} format=${count} /><${Plot} label="Behind" history=${history.seconds} format=${duration} /></div>
    <h2>Partitions</h2>
    <${LongTable} label="Partitions of the group" columns=${PARTITIONS} rows=${partitions} empty=${group ? "The group has committed no offset." : "Loading"} />
    <h2>Members</h2>
    <${Table} label="Members" columns=${MEMBERS} rows=${members} rowKey=${(row) => row.member_id} empty=${group ? "The group has no member." : "Loading"} />
    ${Open && html`<${Open} name=${name} partitions=${partitions} members=${members} onClose=${() => setOpen("")} />`}`;
}
