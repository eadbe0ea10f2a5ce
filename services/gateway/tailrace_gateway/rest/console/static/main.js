// Starts the console: the page that the address names, and the parts of the cluster's state that it watches.
import { html, render, signal, useEffect } from "./core/html.js";
import { seesCluster, userName } from "./core/rights.js";
import { place } from "./core/router.js";
import { Shell } from "./core/shell.js";
import { watch } from "./core/state.js";

const PAGES = [
  { name: "overview", title: "Overview", load: () => import("./pages/overview/page.js") },
  { name: "topics", title: "Topics", load: () => import("./pages/topics/page.js") },
  { name: "messages", title: "Messages", load: () => import("./pages/messages/page.js") },
  { name: "groups", title: "Groups", load: () => import("./pages/groups/page.js") },
  { name: "brokers", title: "Brokers", load: () => import("./pages/brokers/page.js"), isShown: () => seesCluster("DESCRIBE") },
  { name: "transactions", title: "Transactions", load: () => import("./pages/transactions/page.js"), isShown: () => seesCluster("DESCRIBE") },
  { name: "quotas", title: "Quotas", load: () => import("./pages/quotas/page.js"), isShown: () => seesCluster("DESCRIBE_CONFIGS") },
  { name: "users", title: "Users", load: () => import("./pages/users/page.js"), isShown: () => userName() !== null && seesCluster("DESCRIBE") },
];
const REST_MS = 1500; // after the first page is there the others are fetched, so that they open at once
const loaded = signal(new Map());
const failure = signal("");

async function load({ name, load: fetched }) {
  if (loaded.value.has(name)) return;
  try {
    const page = (await fetched()).default;
    loaded.value = new Map(loaded.value).set(name, page);
    failure.value = "";
  } catch (error) {
    failure.value = error.message;
  }
}

function App() {
  const { names, query } = place.value;
  const known = names.length ? PAGES.find(({ name }) => name === names[0]) : PAGES[0];
  const page = known && loaded.value.get(known.name);
  const parts = page?.parts(names.slice(1), query) ?? [];
  useEffect(() => {
    if (known && !page) load(known);
  }, [known?.name]);
  useEffect(() => watch(parts), [JSON.stringify(parts)]);
  let content = html`<h1>There is no such page</h1>`;
  if (page) content = html`<${page.View} key=${names.join("/")} names=${names.slice(1)} query=${query} />`;
  else if (known) content = failure.value ? html`<h1>${known.title}</h1><p class="bad" role="alert">This page could not be loaded: ${failure.value}</p>` : html`<p class="soft">Loading</p>`;
  return html`<${Shell} pages=${PAGES.filter(({ isShown }) => isShown?.() ?? true)} current=${known}>${content}</${Shell}>`;
}

render(html`<${App} />`, document.getElementById("app"));
setTimeout(() => PAGES.forEach(load), REST_MS);
