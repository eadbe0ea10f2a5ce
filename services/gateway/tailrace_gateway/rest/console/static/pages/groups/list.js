// All groups, with how far each is behind.
import { html } from "../../core/html.js";
import { count, counted, duration, UNKNOWN } from "../../core/format.js";
import { href, note } from "../../core/router.js";
import { Age } from "../../core/shell.js";
import { part } from "../../core/state.js";
import { LongTable, sorted } from "../../core/table.js";

const COLUMNS = [
  { key: "name", title: "Group", sort: (row) => row.key, cell: (row) => html`<a href=${href(["groups", row.key])} title=${row.key}>${row.key}</a>` },
  { key: "state", title: "State", sort: (row) => row.state, cell: (row) => row.state.toLowerCase().replaceAll("_", " ") },
  { key: "type", title: "Type", wide: true, sort: (row) => row.type, cell: (row) => row.type.toLowerCase() },
  { key: "lag", title: "Lag", number: true, sort: (row) => row.lag, cell: (row) => (row.lag_failure ? html`<span class="warn" title=${row.lag_failure}>not known</span>` : count(row.lag)) },
  { key: "seconds", title: "Behind", number: true, sort: (row) => row.lag_seconds, cell: (row) => duration(row.lag_seconds) },
  { key: "worst", title: "Furthest behind", wide: true, cell: (row) => (row.worst && row.lag ? `${row.worst[0]}-${row.worst[1]}` : UNKNOWN) },
];

export function GroupList({ query }) {
  const search = query.get("q") ?? "";
  const sort = { by: query.get("sort") ?? "name", down: query.get("down") === "1" };
  const noted = (change) => {
    const next = { q: search, sort: sort.by === "name" ? "" : sort.by, down: sort.down && 1, ...change };
    note(next);
  };
  const all = [...part("groups").rows.value].map(([key, row]) => ({ key, ...row }));
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.filter((row) => words.every((word) => row.key.toLowerCase().includes(word)));
  const known = part("groups").confirmedAt.value !== null;
  return html`<h1>Groups</h1><${Age} of=${["groups"]} />
    <div class="tools">
      <label class="field"><span>Search</span><input type="search" value=${search} onInput=${(event) => noted({ q: event.target.value })} /></label>
      <span class="soft" role="status">${known && `${count(found.length)} of ${counted(all.length, "group", "groups")}`}</span>
    </div>
    <${LongTable} label="Groups" columns=${COLUMNS} rows=${sorted(found, COLUMNS, sort)} sort=${sort}
      onSort=${({ by, down }) => noted({ sort: by === "name" ? "" : by, down: down && 1 })}
      empty=${!known ? "Loading" : all.length ? "No group is like that." : "No group yet."} />`;
}
