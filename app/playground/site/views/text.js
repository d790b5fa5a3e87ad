/** @file Markdown and JSON of a model, on the page. */

import { GrowingBlocks, splitPlain } from "../blocks.js";
import { Component, html, useEffect, useLayoutEffect, useRef } from "../html.js";
import { highlight, MAX_HIGHLIGHTED, renderBlock, renderMath, sanitize } from "../markdown.js";

/** @param {{text: string}} props */
export function Markdown({ text }) {
  const blocks = useRef(/** @type {GrowingBlocks | null} */ (null));
  blocks.current ??= new GrowingBlocks();
  return html`<div class="markdown">
    ${blocks.current.update(text).map((block, index) => html`<${Block} key=${index} block=${block} />`)}
  </div>`;
}

/** One block: it is rendered again only if its source has changed. One that cannot be rendered is shown as its source. */
class Block extends Component {
  /** @param {any} next */
  shouldComponentUpdate(next) {
    const { block } = /** @type {any} */ (this.props);
    return next.block.raw !== block.raw || next.block.kind !== block.kind;
  }

  render(/** @type {any} */ { block }) {
    if (block.kind === "plain") return html`<div class="plain-text">${block.text}</div>`;
    try {
      return html`<${SafeHtml} markup=${renderBlock(block)} />`;
    } catch {
      return html`<div class="plain-text">${block.raw}</div>`;
    }
  }
}

/** @param {{markup: string}} props the sanitized HTML */
function SafeHtml({ markup }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    if (!ref.current) return;
    ref.current.innerHTML = markup;
    renderMath(ref.current);
    measureLater(ref.current);
  }, [markup]);
  return html`<div class="block" ref=${ref}></div>`;
}

/** @type {Set<HTMLElement>} */
const unmeasured = new Set();

/** Let the keyboard reach a block that scrolls. The browser computes the layout once for all blocks of a frame. @param {HTMLElement} block */
function measureLater(block) {
  if (!unmeasured.size) {
    requestAnimationFrame(() => {
      const wide = [...unmeasured].filter((one) => one.scrollWidth > one.clientWidth);
      for (const one of unmeasured) one.removeAttribute("tabindex");
      for (const one of wide) one.tabIndex = 0;
      unmeasured.clear();
    });
  }
  unmeasured.add(block);
}

/** Text as it is, also megabytes of it: what is out of view costs nothing. @param {{text: string}} props */
export function PlainText({ text }) {
  return splitPlain(text).map((piece, index) => html`<span class="plain-text" key=${index}>${piece.raw}</span>`);
}

/** Code in colours; a long one without. @param {{text: string, language: string, label: string}} props */
export function Code({ text, language, label }) {
  const attributes = { tabindex: 0, role: "region", "aria-label": label };
  if (text.length > MAX_HIGHLIGHTED) return html`<pre key="long" ...${attributes}><code><${PlainText} text=${text} /></code></pre>`;
  return html`<pre key="short" ...${attributes}><${ColouredCode} text=${text} language=${language} /></pre>`;
}

/** @param {{text: string, language: string}} props */
function ColouredCode({ text, language }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (ref.current) ref.current.innerHTML = sanitize(highlight(text, language));
  }, [text, language]);
  return html`<code ref=${ref}></code>`;
}

/**
 * Return JSON with line breaks; text that is not JSON, such as arguments that are still growing, as it is.
 * @param {string} text
 */
export function prettyJson(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
