/** @file A text field for JSON that marks each mistake at its place, and leads to it. */

import { html, useLayoutEffect, useRef } from "../html.js";
import { describeMark } from "../json_marks.js";
import { useId } from "./controls.js";

/** @typedef {import("../json_marks.js").Mark} Mark */

/** A longer text is not marked inside the field: the list of its mistakes names line and column. */
const MAX_MARKED = 200_000;

/**
 * @param {{label: string, value: string, onInput: (value: string) => void, marks: Mark[], rows?: number, action?: any,
 *   placeholder?: string}} props
 */
export function JsonArea({ label, value, onInput, marks, rows = 6, action, placeholder }) {
  const id = useId("json");
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const backdrop = useRef(/** @type {HTMLElement | null} */ (null));
  const follow = () => {
    if (backdrop.current && field.current) backdrop.current.scrollTop = field.current.scrollTop;
  };
  useLayoutEffect(follow);
  const show = (/** @type {Mark} */ mark) => {
    const found = /** @type {HTMLElement | null | undefined} */ (backdrop.current?.querySelector(`[data-start="${mark.start}"]`));
    field.current?.focus();
    field.current?.setSelectionRange(mark.start, mark.end);
    if (found && field.current) field.current.scrollTop = found.offsetTop - field.current.clientHeight / 3;
  };
  const wrong = marks.some((mark) => mark.kind === "wrong");
  return html`<div class="field grows">
    <div class="label-row"><label for=${id}>${label}</label>${action}</div>
    <div class="marked">
      ${marks.length > 0 && value.length < MAX_MARKED && html`<pre ref=${backdrop} class="backdrop" aria-hidden="true">${markText(value, marks)}${"\n"}</pre>`}
      <textarea id=${id} ref=${field} rows=${rows} spellcheck="false" value=${value} placeholder=${placeholder} onScroll=${follow}
        aria-invalid=${wrong ? "true" : null} aria-describedby=${marks.length ? `${id}-marks` : null}
        onInput=${(/** @type {any} */ event) => onInput(event.target.value)}></textarea>
    </div>
    <${MarkList} id=${`${id}-marks`} text=${value} marks=${marks} onShow=${show} />
  </div>`;
}

/** @param {{id: string, text: string, marks: Mark[], onShow: (mark: Mark) => void}} props */
function MarkList({ id, text, marks, onShow }) {
  if (!marks.length) return null;
  return html`<div id=${id} role="alert"><ul class="marks">${marks.map((mark) => html`<li>
    <button type="button" class=${`mark ${mark.kind}`} onClick=${() => onShow(mark)}>${describeMark(text, mark)}</button></li>`)}</ul></div>`;
}

/**
 * Return the text with an element for each mark; one that overlaps an earlier one is left out.
 * @param {string} text
 * @param {Mark[]} marks
 */
function markText(text, marks) {
  const pieces = [];
  let at = 0;
  for (const { start, end, kind } of [...marks].sort((one, other) => one.start - other.start)) {
    if (start < at) continue;
    pieces.push(text.slice(at, start), html`<mark class=${kind} data-start=${start}>${text.slice(start, end) || " "}</mark>`);
    at = end;
  }
  return [...pieces, text.slice(at)];
}
