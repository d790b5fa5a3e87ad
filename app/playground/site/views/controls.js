/** @file Small controls that several views use. */

import { html, useEffect, useRef, useState } from "../html.js";
import { t } from "../texts.js";

let lastId = 0;

/** Return an id that stays with the component. @param {string} prefix */
export function useId(prefix) {
  const ref = useRef("");
  if (!ref.current) ref.current = `${prefix}-${++lastId}`;
  return ref.current;
}

/**
 * @param {{label: string, value: string, options: string[][], onChange: (value: string) => void, hidesLabel?: boolean,
 *   hint?: string, disabled?: boolean}} props
 */
export function Select({ label, value, options, onChange, hidesLabel, hint, disabled }) {
  const id = useId("select");
  return html`<div class="field">
    <label for=${id} class=${hidesLabel ? "visually-hidden" : ""}>${label}</label>
    <select id=${id} value=${value} disabled=${disabled} title=${hidesLabel ? label : undefined} aria-describedby=${hint ? `${id}-hint` : null}
      onChange=${(/** @type {any} */ event) => onChange(event.target.value)}>
      ${options.map(([name, text]) => html`<option value=${name} selected=${name === value}>${text}</option>`)}
    </select>
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
  </div>`;
}

/**
 * @param {{label: string, value: string, onInput: (value: string) => void, hint?: string, wrong?: string | null,
 *   [more: string]: any}} props
 */
export function Field({ label, value, onInput, hint, wrong, ...more }) {
  const id = useId("field");
  return html`<div class="field">
    <label for=${id}>${label}</label>
    <input id=${id} value=${value} onInput=${(/** @type {any} */ event) => onInput(event.target.value)}
      aria-invalid=${wrong ? "true" : null} aria-describedby=${hint || wrong ? `${id}-hint` : null} ...${more} />
    ${(hint || wrong) && html`<p class=${wrong ? "hint wrong" : "hint"} id=${`${id}-hint`}>${wrong || hint}</p>`}
  </div>`;
}

/**
 * @param {{label: string, value: string, onInput: (value: string) => void, rows?: number, wrong?: string | null,
 *   hidesLabel?: boolean, action?: any, [more: string]: any}} props
 */
export function TextArea({ label, value, onInput, rows = 6, wrong, hidesLabel, action, ...more }) {
  const id = useId("area");
  return html`<div class="field grows">
    <div class="label-row"><label for=${id} class=${hidesLabel ? "visually-hidden" : ""}>${label}</label>${action}</div>
    <textarea id=${id} rows=${rows} spellcheck="false" value=${value} aria-invalid=${wrong ? "true" : null}
      aria-describedby=${wrong ? `${id}-hint` : null}
      onInput=${(/** @type {any} */ event) => onInput(event.target.value)} ...${more}></textarea>
    ${wrong && html`<p class="hint wrong" id=${`${id}-hint`}>${wrong}</p>`}
  </div>`;
}

/** @param {{label: string, checked: boolean, onChange: (checked: boolean) => void, hint?: string}} props */
export function Checkbox({ label, checked, onChange, hint }) {
  const id = useId("check");
  return html`<div class="field check">
    <input id=${id} type="checkbox" checked=${checked} aria-describedby=${hint ? `${id}-hint` : null}
      onChange=${(/** @type {any} */ event) => onChange(event.target.checked)} />
    <label for=${id}>${label}</label>
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
  </div>`;
}

/** @param {{text: string | (() => string), label?: string}} props */
export function CopyButton({ text, label }) {
  const [outcome, setOutcome] = useState("");
  useEffect(() => {
    if (!outcome) return undefined;
    const timer = setTimeout(() => setOutcome(""), outcome === "copied" ? 1500 : 6000);
    return () => clearTimeout(timer);
  }, [outcome]);
  const copy = (/** @type {any} */ event) =>
    copyText(typeof text === "function" ? text() : text, event.currentTarget).then(
      () => setOutcome("copied"),
      () => setOutcome("notCopied"),
    );
  return html`<button type="button" class="quiet" onClick=${copy}>${outcome === "copied" ? t("copied") : outcome ? t("notCopied") : (label ?? t("copy"))}</button>`;
}

/**
 * Copy a text. Browsers have `clipboard` on https and localhost alone; elsewhere they copy what is selected. Throws if the
 * browser allows neither.
 * @param {string} text
 * @param {HTMLElement} button that was pressed
 */
async function copyText(text, button) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  button.after(field); // inside an open dialog, all else cannot be selected
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  button.focus();
  if (!copied) throw new Error("the browser does not copy");
}

/**
 * Tabs, as the ARIA Authoring Practices describe them: arrows move between them.
 * @param {{label: string, tabs: {id: string, text: string, body: any}[]}} props
 */
export function Tabs({ label, tabs }) {
  const id = useId("tabs");
  const [chosen, setChosen] = useState(tabs[0].id);
  const index = Math.max(0, tabs.findIndex((tab) => tab.id === chosen));
  const move = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(index + step + tabs.length) % tabs.length].id;
    setChosen(next);
    document.getElementById(`${id}-${next}`)?.focus();
  };
  return html`<div class="tabs">
    <div role="tablist" aria-label=${label} onKeyDown=${move}>
      ${tabs.map((tab, at) => html`<button type="button" role="tab" id=${`${id}-${tab.id}`} aria-selected=${String(at === index)}
        aria-controls=${`${id}-panel`} tabindex=${at === index ? 0 : -1} onClick=${() => setChosen(tab.id)}>${tab.text}</button>`)}
    </div>
    <div role="tabpanel" id=${`${id}-panel`} aria-labelledby=${`${id}-${tabs[index].id}`} tabindex="0">${tabs[index].body()}</div>
  </div>`;
}
