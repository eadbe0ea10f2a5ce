// Requests to this gateway alone, with its cookies. A refusal is an error with the sentence that the cluster gave.
import { signal } from "./html.js";

const JSON_TYPE = "application/json";
export const clusterId = signal(null);

const CSRF = "X-Tailrace-CSRF";

// The token of a browser's session; null without one.
export function csrfToken() {
  const cookie = document.cookie.split("; ").find((pair) => pair.startsWith(`${CSRF}=`));
  return cookie ? cookie.slice(CSRF.length + 1) : null;
}

// Goes to the login page where a session has ended. A program's login, HTTP Basic, is asked for by the browser itself.
export function checkLogin(response) {
  if (response.status !== 401 || response.headers.has("www-authenticate")) return;
  location.assign(`/login?next=${encodeURIComponent(`/${location.hash}`)}`);
}

export async function send(path, { method = "GET", body, signal: abort, accept = JSON_TYPE } = {}) {
  const headers = { accept };
  if (body !== undefined) headers["content-type"] = JSON_TYPE;
  const token = method === "GET" ? null : csrfToken();
  if (token) headers[CSRF] = token;
  let response;
  try {
    const content = body === undefined ? undefined : JSON.stringify(body);
    response = await fetch(path, { method, headers, body: content, signal: abort, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The gateway cannot be reached; whether it acted is not known.");
  }
  checkLogin(response);
  if (!response.ok) throw Object.assign(new Error(await sentenceOf(response)), { status: response.status });
  return response;
}

async function sentenceOf(response) {
  try {
    return (await response.json()).message ?? `HTTP ${response.status}`;
  } catch {
    return `HTTP ${response.status}`;
  }
}

export async function ask(path, options) {
  const text = await (await send(path, options)).text();
  return text === "" ? null : JSON.parse(text); // what is done may have nothing to say
}

// The path of something in this cluster; each part is one name, of any characters.
export function pathOf(...parts) {
  return ["/v3/clusters", clusterId.value ?? "-", ...parts].map((part, at) => (at ? encodeURIComponent(part) : part)).join("/");
}

// Confluent's verbs, as configs:alter, are no part of a name.
export function verbOf(path, verb) {
  return `${path}:${verb}`;
}
