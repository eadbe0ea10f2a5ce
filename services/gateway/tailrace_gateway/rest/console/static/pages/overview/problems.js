// What is wrong, the worst first. That nothing is wrong is said only while that is known.
import { html } from "../../core/html.js";
import { problems, verdict } from "../../core/health.js";

export function Problems() {
  const { level, text } = verdict.value;
  const isUnknown = level !== "good" && !problems.value.length;
  return html`<ul class="problems" aria-label="Problems">
    ${isUnknown && html`<li class=${level}>${text}</li>`}
    ${level === "good" && html`<li class="good">Every role that was asked answers, no transaction hangs, and every partition has a leader and all its replicas in sync.</li>`}
    ${problems.value.map((problem) => html`<li key=${problem.text} class=${problem.level}>${problem.text} <span class="soft">${problem.more}</span></li>`)}
  </ul>`;
}
