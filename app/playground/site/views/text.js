/** @file Markdown and JSON of a model, on the page. */

import { Component, html, useEffect, useLayoutEffect, useRef } from "../html.js";
import { highlight, renderBlock, renderMath, sanitize, splitBlocks } from "../markdown.js";

/** @param {{text: string}} props */
export function Markdown({ text }) {
  return html`<div class="markdown">
    ${splitBlocks(text).map((block, index) => html`<${Block} key=${index} block=${block} />`)}
  </div>`;
}

/** One block: it is rendered again only if its source has changed. */
class Block extends Component {
  /** @param {any} next */
  shouldComponentUpdate(next) {
    return next.block.token.raw !== /** @type {any} */ (this.props).block.token.raw;
  }

  render(/** @type {any} */ { block }) {
    return html`<${SafeHtml} markup=${renderBlock(block)} />`;
  }
}

/** @param {{markup: string}} props the sanitized HTML */
function SafeHtml({ markup }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    if (!ref.current) return;
    ref.current.innerHTML = markup;
    renderMath(ref.current);
  }, [markup]);
  return html`<div class="block" ref=${ref}></div>`;
}

/** Code in colours. @param {{text: string, language: string, label: string}} props */
export function Code({ text, language, label }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (ref.current) ref.current.innerHTML = sanitize(highlight(text, language));
  }, [text, language]);
  return html`<pre tabindex="0" role="region" aria-label=${label}><code ref=${ref}></code></pre>`;
}

/**
 * Return JSON with line breaks; text that is no JSON, such as arguments that are still growing, as it is.
 * @param {string} text
 */
export function prettyJson(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
