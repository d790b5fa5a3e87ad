/** @file A limit, and how much of it is used. */

import { html } from "../html.js";
import { number, t } from "../texts.js";

/** The digits after the point of a limit's numbers. @param {string} kind */
export const limitDigits = (kind) => (kind.startsWith("spend") ? 4 : 0);

/** @param {{owner: string, kind: string, limit: number, used: number}} props `owner` is for screen readers */
export function UsedLimit({ owner, kind, limit, used }) {
  return html`<meter min="0" max=${limit} value=${used} high=${limit * 0.8} aria-label=${`${owner}: ${t(`limit_${kind}`)}`}></meter>
    ${number(used, limitDigits(kind))} / ${number(limit, limitDigits(kind))}`;
}
