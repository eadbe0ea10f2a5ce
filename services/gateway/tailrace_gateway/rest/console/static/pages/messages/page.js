// Messages of a topic: browse, filter, tail, produce.
import { html } from "../../core/html.js";
import { count } from "../../core/format.js";
import { href } from "../../core/router.js";
import { Age } from "../../core/shell.js";
import { part } from "../../core/state.js";
import { Browser } from "./browser.js";

function Choice() {
  const topics = [...part("topics").rows.value].filter(([, row]) => !row.internal).sort(([a], [b]) => (a < b ? -1 : 1));
  return html`<h1>Messages</h1><${Age} of=${["topics"]} />
    <p>Of which topic?</p>
    <ul>${topics.slice(0, 100).map(([name, row]) => html`<li key=${name}><a href=${href(["messages", name])}>${name}</a> <span class="soft">${count(row.partitions)} partitions</span></li>`)}</ul>
    ${topics.length > 100 && html`<p><a href=${href(["topics"])}>Search all ${count(topics.length)} topics</a></p>`}`;
}

export default {
  name: "messages",
  title: "Messages",
  parts: ([name]) => (name === undefined ? ["topics"] : ["topics", `topic:${name}`, `topic-rights:${name}`]),
  View: ({ names: [name], query }) => (name === undefined ? html`<${Choice} />` : html`<${Browser} name=${name} query=${query} />`),
};
