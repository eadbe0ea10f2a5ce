// Starts the console: the page that the address names, and the parts of the cluster's state that it watches.
import { html, render, useEffect } from "./core/html.js";
import { place } from "./core/router.js";
import { Shell } from "./core/shell.js";
import { watch } from "./core/state.js";
import overview from "./pages/overview/page.js";
import topics from "./pages/topics/page.js";
import groups from "./pages/groups/page.js";

import messages from "./pages/messages/page.js";
import transactions from "./pages/transactions/page.js";
import quotas from "./pages/quotas/page.js";

const PAGES = [overview, topics, messages, groups, transactions, quotas];

function App() {
  const { names, query } = place.value;
  const page = names.length ? PAGES.find(({ name }) => name === names[0]) : overview;
  const parts = page?.parts(names.slice(1), query) ?? [];
  useEffect(() => watch(parts), [JSON.stringify(parts)]);
  const content = page ? html`<${page.View} key=${names.join("/")} names=${names.slice(1)} query=${query} />` : html`<h1>There is no such page</h1>`;
  return html`<${Shell} pages=${PAGES} current=${page}>${content}</${Shell}>`;
}

render(html`<${App} />`, document.getElementById("app"));
