// A plot over time of values that were seen while the page was open, with the newest one as text for all readers.
import uPlot from "uplot";
import { clock } from "./format.js";
import { html, useEffect, useRef } from "./html.js";

const POINTS_MAX = 600;
const HEIGHT_PX = 140;

// Values by time, for as long as the console is open; the oldest ones go.
export class History {
  constructor() {
    this.times = [];
    this.values = [];
  }

  add(ms, value) {
    const seconds = ms / 1000;
    if (value === null || value === undefined || this.times.at(-1) >= seconds) return;
    this.times.push(seconds);
    this.values.push(value);
    if (this.times.length > POINTS_MAX) {
      this.times.shift();
      this.values.shift();
    }
  }
}

function Lines({ label, history, format }) {
  const place = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    const box = place.current;
    const style = getComputedStyle(document.documentElement);
    const axis = { stroke: style.getPropertyValue("--soft-text"), grid: { stroke: style.getPropertyValue("--line") }, ticks: { show: false } };
    const line = { label, stroke: style.getPropertyValue("--accent"), width: 2, points: { show: false } };
    const options = {
      width: box.clientWidth, height: HEIGHT_PX, legend: { show: false }, cursor: { show: false },
      scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(1, high ?? 1)] } },
      axes: [{ ...axis, space: 90, values: (_, ticks) => ticks.map((seconds) => clock(seconds * 1000)) }, { ...axis, size: 70, values: (_, ticks) => ticks.map(format) }],
      series: [{}, line],
    };
    plot.current = new uPlot(options, [history.times, history.values], box);
    const sized = new ResizeObserver(() => plot.current?.setSize({ width: box.clientWidth, height: HEIGHT_PX }));
    sized.observe(box);
    return () => {
      sized.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [history]);
  useEffect(() => plot.current?.setData([history.times, history.values]));
  return html`<div ref=${place} aria-hidden="true"></div>`;
}

export function Plot({ label, history, format }) {
  const newest = history.values.at(-1);
  return html`<figure class="plot"><figcaption>${label}: <strong>${format(newest)}</strong></figcaption>
    ${history.times.length > 1 ? html`<${Lines} label=${label} history=${history} format=${format} />` : html`<p class="soft">A line needs two looks.</p>`}
  </figure>`;
}
