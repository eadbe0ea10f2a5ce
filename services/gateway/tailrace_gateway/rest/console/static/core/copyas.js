// The same action as a command: of this REST API with curl, of the tailrace command, of Kafka's tools or kcat.
import { html, useState } from "./html.js";
import { shell } from "./format.js";
import { userName } from "./rights.js";

const TAILRACE = /(^|\| |&& )tailrace /g;

export function curl(method, path, body) {
  const words = ["curl"];
  if (userName()) words.push("-u", userName().replace(/^User:/, "")); // curl asks for the password
  if (method !== "GET") words.push("-X", method);
  if (body !== undefined) words.push("-H", "content-type: application/json", "-d", JSON.stringify(body));
  return shell(...words, new URL(path, location.origin).href);
}

// twins: [name, command] pairs.
export function CopyAs({ twins }) {
  const [copied, setCopied] = useState("");
  const shown = userName() ? twins.map(([name, text]) => [name, text.replaceAll(TAILRACE, "$1tailrace --command-config client.properties ")]) : twins;
  async function copy(name, text) {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(`${name} is copied.`);
    } catch {
      setCopied("The browser does not let pages copy here: mark the text."); // no clipboard without TLS off the loopback
    }
  }
  return html`<details class="copyas"><summary>Copy as</summary>
    ${shown.map(([name, text]) => html`<div key=${name} class="twin"><strong>${name}</strong><code tabindex="0">${text}</code><button type="button" onClick=${() => copy(name, text)}>Copy<span class="hidden"> ${name}</span></button></div>`)}
    <p role="status" class="soft">${copied}</p>
  </details>`;
}
