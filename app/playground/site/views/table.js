/** @file Tables, which become lists on narrow screens, and the badges in them. */

import { html } from "../html.js";

/** @typedef {"good" | "bad" | "unknown"} State */

/** @param {{caption: string, head: string[], rows: any[][], empty: string}} props */
export function Table({ caption, head, rows, empty }) {
  return html`<section class="table"><h2>${caption}</h2>
    ${rows.length === 0
      ? html`<p class="muted">${empty}</p>`
      : html`<div class="scrolls" tabindex="0" role="region" aria-label=${caption}><table>
          <thead><tr>${head.map((text) => html`<th scope="col">${text}</th>`)}</tr></thead>
          <tbody>${rows.map((row) => html`<tr>${row.map((cell, at) => html`<td data-label=${head[at]}><div>${cell}</div></td>`)}</tr>`)}</tbody></table></div>`}
  </section>`;
}

/** @param {{state: State, text: string}} props */
export function Badge({ state, text }) {
  return html`<span class=${`badge ${state}`}>${{ good: "●", bad: "▲", unknown: "○" }[state]} ${text}</span>`;
}
