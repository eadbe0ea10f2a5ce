// Tables: a plain one, and one for very many rows that draws only those in sight.
import { html, useEffect, useRef, useState } from "./html.js";

const ROW_PX = 36;
const SPARE_ROWS = 8; // drawn above and below those in sight, so that a tab finds its next link

function Head({ columns, sort, onSort }) {
  return html`<thead><tr>${columns.map((column) => {
    const sorted = sort && column.sort && sort.by === column.key;
    const direction = sorted ? (sort.down ? "descending" : "ascending") : undefined;
    const label = column.sort
      ? html`<button type="button" class="sort" onClick=${() => onSort({ by: column.key, down: sorted ? !sort.down : Boolean(column.number) })}>${column.title}<span aria-hidden="true">${sorted ? (sort.down ? " ↓" : " ↑") : ""}</span></button>`
      : column.title || html`<span class="hidden">Actions</span>`;
    return html`<th scope="col" class=${classOf(column)} aria-sort=${direction}>${label}</th>`;
  })}</tr></thead>`;
}

function classOf(column) {
  return [column.number ? "number" : "", column.wide ? "wide" : ""].join(" ").trim() || undefined;
}

function Row({ columns, row, index }) {
  return html`<tr aria-rowindex=${index}>${columns.map((column) => html`<td class=${classOf(column)}>${column.cell(row)}</td>`)}</tr>`;
}

// columns: {key, title, cell(row), number, wide, sort(row)}; rows have a key.
export function Table({ label, columns, rows, empty, sort, onSort, rowKey = (row) => row.key }) {
  return html`<div class="scroll" role="region" aria-label=${label} tabindex="0"><table>
    <caption class="hidden">${label}</caption>
    <${Head} columns=${columns} sort=${sort} onSort=${onSort} />
    <tbody>${rows.length ? rows.map((row) => html`<${Row} key=${rowKey(row)} columns=${columns} row=${row} />`) : html`<tr><td colspan=${columns.length} class="soft">${empty}</td></tr>`}</tbody>
  </table></div>`;
}

export function LongTable({ label, columns, rows, empty, sort, onSort }) {
  const box = useRef(null);
  const [sight, setSight] = useState({ top: 0, rows: 30 });
  useEffect(() => {
    const element = box.current;
    const look = () => {
      const top = Math.floor(element.scrollTop / ROW_PX);
      const seen = Math.ceil(element.clientHeight / ROW_PX);
      setSight((old) => (old.top === top && old.rows === seen ? old : { top, rows: seen }));
    };
    const sized = new ResizeObserver(look);
    sized.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      sized.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  const first = Math.max(0, Math.min(sight.top, rows.length - sight.rows) - SPARE_ROWS);
  const last = Math.min(rows.length, Math.max(0, sight.top) + sight.rows + SPARE_ROWS);
  const gap = (count) => count > 0 && html`<tr class="gap" aria-hidden="true" style=${{ height: `${count * ROW_PX}px` }}><td colspan=${columns.length}></td></tr>`;
  return html`<div class="scroll long" ref=${box} role="region" aria-label=${label} tabindex="0"><table aria-rowcount=${rows.length + 1}>
    <caption class="hidden">${label}</caption>
    <${Head} columns=${columns} sort=${sort} onSort=${onSort} />
    <tbody>
      ${gap(first)}
      ${rows.slice(first, last).map((row, at) => html`<${Row} key=${row.key} columns=${columns} row=${row} index=${first + at + 2} />`)}
      ${gap(rows.length - last)}
      ${rows.length === 0 && html`<tr><td colspan=${columns.length} class="soft">${empty}</td></tr>`}
    </tbody>
  </table></div>`;
}

export function sorted(rows, columns, sort) {
  const column = columns.find(({ key }) => key === sort.by);
  if (!column?.sort) return rows;
  const sign = sort.down ? -1 : 1;
  return rows
    .map((row) => [column.sort(row), row])
    .sort(([a, one], [b, two]) => {
      if (a === b || (a == null && b == null)) return one.key < two.key ? -1 : 1;
      if (a == null || b == null) return a == null ? 1 : -1; // what is not known is last
      return a < b ? -sign : sign;
    })
    .map(([, row]) => row);
}
