/** @file The time between two pieces of a reply, one bar for each. */

import { html } from "../html.js";
import { number, t } from "../texts.js";

const WIDTH = 300;
const HEIGHT = 64;
const MAX_BARS = 150;

/** @param {{gaps: number[]}} props milliseconds */
export function GapPlot({ gaps }) {
  if (!gaps.length) return null;
  const bars = thin(gaps, MAX_BARS);
  const longest = Math.max(...bars, 1);
  const sorted = [...gaps].sort((a, b) => a - b);
  const at = (/** @type {number} */ share) => number(sorted[Math.floor((sorted.length - 1) * share)], 1);
  const step = WIDTH / Math.max(bars.length, 30);
  const text = t("gapsText", { median: at(0.5), p95: at(0.95), max: at(1) });
  return html`<figure class="plot">
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${`${t("gaps")}: ${text}`}>
      ${bars.map((gap, index) => {
        const height = Math.max(1, (gap / longest) * HEIGHT);
        return html`<rect x=${index * step} y=${HEIGHT - height} width=${Math.max(0.6, step * 0.8)} height=${height}></rect>`;
      })}
    </svg>
    <figcaption><b>${t("gaps")}</b> ${text}</figcaption>
  </figure>`;
}

/**
 * Return at most `most` values: the longest gap of each group.
 * @param {number[]} values
 * @param {number} most
 */
function thin(values, most) {
  const size = Math.ceil(values.length / most);
  if (size === 1) return values;
  return Array.from({ length: Math.ceil(values.length / size) }, (_, group) =>
    Math.max(...values.slice(group * size, (group + 1) * size)),
  );
}
