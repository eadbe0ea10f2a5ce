// The place in the console, kept in the address: #/page/name?filter=…, so that a link shows what its sender saw.
import { signal } from "./html.js";

function parse() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { names: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a link that was cut
  }
}

export const place = signal(parse());
window.addEventListener("hashchange", () => (place.value = parse()));

export function href(names, query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false);
  const search = pairs.length ? `?${new URLSearchParams(pairs.map(([key, value]) => [key, String(value)]))}` : "";
  return `#/${names.map(encodeURIComponent).join("/")}${search}`;
}

export function go(names, query) {
  location.hash = href(names, query);
}

// Changes the address in place: what a reader types into a filter is no step of the history.
export function note(query) {
  const { names } = place.value;
  history.replaceState(null, "", href(names, query));
  place.value = parse();
}
