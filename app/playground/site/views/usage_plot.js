/** @file Bars of a number of each day, or of each key, team or model. The table beside them has the same numbers. */

import { html } from "../html.js";
import { number, t } from "../texts.js";

const WIDTH = 600;
const HEIGHT = 120;
const MAX_NAMES = 12;
const MAX_DAYS = 400;
const DAY_MS = 86_400_000;

/** @typedef {{name: string, value: number}} Bar */

/**
 * A bar for each day of a range, also for days without requests; in a long range, for several days together.
 * @param {{title: string, bars: Bar[], first: string, last: string, digits: number}} props
 */
export function DayPlot({ title, bars, first, last, digits }) {
  const days = sumDays(bars, first, last);
  const most = Math.max(...days.map(({ value }) => value));
  const step = WIDTH / days.length;
  const highest = days.find(({ value }) => value === most);
  const text = most > 0 ? t("plotDays", { most: number(most, digits), day: highest?.name ?? "" }) : t("plotEmpty");
  return html`<figure class="plot usage">
    <figcaption><h2>${title}</h2> ${text}</figcaption>
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${`${title}: ${text}`}>
      ${days.map(({ name, value }, at) => {
        const height = value > 0 ? Math.max(1, (value / most) * HEIGHT) : 0;
        return html`<rect x=${at * step} y=${HEIGHT - height} width=${step * 0.84} height=${height}><title>${name}: ${number(value, digits)}</title></rect>`;
      })}
    </svg>
    <div class="axis" aria-hidden="true"><span>${first}</span><span>${last}</span></div>
  </figure>`;
}

/**
 * A bar for each name, the longest first.
 * @param {{title: string, bars: Bar[], digits: number}} props
 */
export function NamePlot({ title, bars, digits }) {
  const sorted = bars.filter(({ value }) => value > 0).sort((a, b) => b.value - a.value);
  const shown = sorted.slice(0, MAX_NAMES);
  const text = shown.length ? t("plotNames", { name: shown[0].name, most: number(shown[0].value, digits) }) : t("plotEmpty");
  const left = sorted.length - shown.length;
  return html`<figure class="plot usage">
    <figcaption><h2>${title}</h2> ${text}${left > 0 && html` ${t("plotMore", { count: left })}`}</figcaption>
    <div class="bars" role="img" aria-label=${`${title}: ${text}`}>
      ${shown.map(({ name, value }) => html`<span class="name">${name}</span>
        <svg viewBox=${`0 0 ${WIDTH} 10`} preserveAspectRatio="none"><rect width=${Math.max(1, (value / shown[0].value) * WIDTH)} height="10"></rect></svg>
        <span class="value">${number(value, digits)}</span>`)}
    </div>
  </figure>`;
}

/**
 * Return the sum of each day, or of as many days as leave at most `MAX_DAYS` sums, with the name of its first day.
 * @param {Bar[]} bars named by days such as 2026-11-01
 * @param {string} first
 * @param {string} last
 * @returns {Bar[]}
 */
function sumDays(bars, first, last) {
  const begin = Date.parse(first);
  const count = Math.max(1, Math.round((Date.parse(last) - begin) / DAY_MS) + 1);
  const size = Math.ceil(count / MAX_DAYS);
  const sums = Array.from({ length: Math.ceil(count / size) }, (_, at) => ({
    name: new Date(begin + at * size * DAY_MS).toISOString().slice(0, 10),
    value: 0,
  }));
  for (const { name, value } of bars) sums[Math.floor(Math.round((Date.parse(name) - begin) / DAY_MS) / size)].value += value;
  return sums;
}
