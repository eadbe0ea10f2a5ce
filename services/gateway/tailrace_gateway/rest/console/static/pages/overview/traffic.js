// Records that come in, over the time that the console has been open, and the topics that get most of them.
import { html, useMemo } from "../../core/html.js";
import { rate } from "../../core/format.js";
import { History, Plot } from "../../core/plot.js";
import { href } from "../../core/router.js";
import { part } from "../../core/state.js";

const TOP = 5;
const incoming = new History();

export function Traffic() {
  const figures = part("figures");
  const rates = [...figures.rows.value].filter(([, row]) => row.rate !== null);
  const total = rates.length ? rates.reduce((sum, [, row]) => sum + row.rate, 0) : null;
  const at = figures.confirmedAt.value;
  useMemo(() => incoming.add(at, total), [Math.round(at / 1000), total]);
  const top = rates.filter(([, row]) => row.rate > 0).sort((a, b) => b[1].rate - a[1].rate).slice(0, TOP);
  return html`<div class="plots">
    <${Plot} label="Records in" history=${incoming} format=${rate} />
    <div class="card"><h3>Busiest topics</h3>${top.length ? html`<ol>${top.map(([name, row]) => html`<li key=${name}><a href=${href(["topics", name])}>${name}</a> ${rate(row.rate)}</li>`)}</ol>` : html`<p class="soft">${total === null ? "Not known yet: rates need two looks." : "Nothing comes in."}</p>`}</div>
  </div>`;
}
