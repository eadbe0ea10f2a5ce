// What is around every page: where one may go, what is wrong, how old it all is, light or dark.
import { html, signal, useEffect, useRef } from "./html.js";
import { problems, verdict } from "./health.js";
import { clock, duration } from "./format.js";
import { clusterId, csrfToken } from "./rest.js";
import { href, place } from "./router.js";
import { now, part } from "./state.js";

const THEMES = ["auto", "light", "dark"];
const KEY = "tailrace-theme";
const theme = signal(stored());

function stored() {
  try {
    return THEMES.includes(localStorage.getItem(KEY)) ? localStorage.getItem(KEY) : "auto";
  } catch {
    return "auto"; // a browser that keeps nothing
  }
}

function choose(name) {
  theme.value = name;
  try {
    localStorage.setItem(KEY, name);
  } catch {
    // kept until the page is closed
  }
}

export const announced = signal("");

export function announce(text) {
  announced.value = text;
}

function Verdict() {
  const { level, text } = verdict.value;
  return html`<div role="status"><a class="verdict ${level}" href=${href(["overview"])}>
    <span class="mark" aria-hidden="true">${level === "good" ? "✓" : level ? "!" : "…"}</span>
    <span class="text">${text}</span>
  </a></div>`;
}

export function Age({ of }) {
  const watched = of.map(part);
  const confirmed = watched.map((one) => one.confirmedAt.value);
  const failure = watched.map((one) => one.failure.value).find(Boolean);
  const notes = [...new Set(watched.map((one) => one.note.value).filter(Boolean))].join(" ");
  const oldest = confirmed.includes(null) ? null : Math.min(...confirmed);
  const age = oldest === null ? "not known yet" : `as of ${clock(oldest)}, ${duration(Math.max(0, now.value - oldest) / 1000)} ago`;
  return html`<p class="age">
    <span class="soft">${age}</span>${failure && html`<span class="bad"> Not seen anew: ${failure}</span>`}${notes && html`<span class="warn"> ${notes}</span>`}
  </p>`;
}

export function Shell({ pages, current, children }) {
  const main = useRef(null);
  const where = place.value.names.join("/");
  useEffect(() => {
    document.documentElement.dataset.theme = theme.value;
  }, [theme.value]);
  useEffect(() => {
    const title = [place.value.names[1], current?.title].filter(Boolean).join(" · ");
    document.title = `${title} · Tailrace`;
    main.current?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }, [where]);
  const worst = verdict.value.level === "bad" && problems.value.length ? problems.value[0] : null;
  return html`<a class="skip" href="#content" onClick=${(event) => {
      event.preventDefault();
      main.current.focus();
    }}>Skip to the content</a>
    <header>
      <a class="name" href=${href(["overview"])}>Tailrace</a>
      <code class="cluster" title="cluster">${clusterId.value ?? "…"}</code>
      <${Verdict} />
      <div class="theme" role="group" aria-label="Theme">
        ${THEMES.map((name) => html`<button type="button" aria-pressed=${String(theme.value === name)} onClick=${() => choose(name)}>${name}</button>`)}
      </div>
    </header>
    <nav aria-label="Pages">
      <ul>
        ${pages.map(({ name, title }) => html`<li><a href=${href([name])} aria-current=${current?.name === name ? "page" : undefined}>${title}</a></li>`)}
        <li><a href="/docs">REST API</a></li>
        ${csrfToken() && html`<li><a href="/login">Sign out</a></li>`}
      </ul>
    </nav>
    <main id="content" tabindex="-1" ref=${main}>
      ${worst && current?.name !== "overview" && html`<p class="banner bad">${worst.text} <a href=${href(["overview"])}>Overview</a></p>`}
      ${children}
    </main>
    <div class="toast" role="status" aria-live="polite">${announced.value && html`<span>${announced.value} <button type="button" onClick=${() => announce("")}>Dismiss</button></span>`}</div>`;
}
