// A question in a dialog. It is done when the server has said so; what the server refuses stands in the dialog.
import { cloneElement, html, useEffect, useMemo, useRef, useState } from "./html.js";
import { CopyAs } from "./copyas.js";
import { announce } from "./shell.js";

export function Dialog({ title, onClose, children }) {
  const element = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`<dialog ref=${element} aria-label=${title} onClose=${onClose} onCancel=${onClose}>
    <h2>${title}</h2>
    ${children}
  </dialog>`;
}

// act() does it and returns the sentence that says what was done; twins are the same as commands.
export function ActionDialog({ title, verb, danger, ready = true, twins, act, onClose, children }) {
  const [state, setState] = useState({ running: false, failure: "" });
  async function submit(event) {
    event.preventDefault();
    if (!ready || state.running) return;
    setState({ running: true, failure: "" });
    try {
      announce(await act());
      onClose();
    } catch (error) {
      setState({ running: false, failure: error.message });
    }
  }
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${submit}>
      ${children}
      ${state.failure && html`<p class="bad" role="alert">${state.failure}</p>`}
      <div class="buttons">
        <button type="submit" class=${danger ? "danger" : "primary"} disabled=${!ready || state.running}>${state.running ? "…" : verb}</button>
        <button type="button" onClick=${onClose}>Cancel</button>
      </div>
    </form>
    <${CopyAs} twins=${twins} />
  </${Dialog}>`;
}

let fields = 0;

// children: the one input, which gets the label.
export function Field({ label, hint, children }) {
  const id = useMemo(() => `field-${fields++}`, []);
  return html`<div class="field"><label for=${id}>${label}</label>${cloneElement(children, { id })}${hint && html`<small class="soft">${hint}</small>`}</div>`;
}
