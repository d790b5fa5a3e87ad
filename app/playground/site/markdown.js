/**
 * @file Markdown of a model as HTML without anything that runs or loads: HTML in the text is shown as text, pictures of
 * other servers become links, and DOMPurify removes what is left. The page's Trusted Types accept only its result.
 */

import DOMPurify from "./vendor/dompurify.js";
import hljs from "./vendor/highlight.js";
import { Marked } from "./vendor/marked.js";

const MAX_HIGHLIGHTED = 50_000;
const SAFE_URL = /^(https?:|mailto:)/i;
const SAFE_IMAGE = /^data:image\/(png|jpeg|gif|webp);base64,/i;

/** @param {string} text */
export function escapeHtml(text) {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** @param {string} text @param {string} [language] */
export function highlight(text, language) {
  const known = language && hljs.getLanguage(language);
  if (!known || text.length > MAX_HIGHLIGHTED) return escapeHtml(text);
  return hljs.highlight(text, { language, ignoreIllegals: true }).value;
}

/** A formula: `$$…$$`, `\[…\]` as a block; `$…$`, `\(…\)` in a line. */
const blockMath = {
  name: "blockMath",
  level: /** @type {const} */ ("block"),
  start: (/** @type {string} */ text) => text.match(/\$\$|\\\[/)?.index,
  tokenizer(/** @type {string} */ text) {
    const found = /^(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])[ \t]*(?:\n|$)/.exec(text);
    return found ? { type: "blockMath", raw: found[0], text: found[1] ?? found[2] } : undefined;
  },
  renderer: (/** @type {any} */ token) => `<div class="math" data-display="block">${escapeHtml(token.text.trim())}</div>`,
};
const inlineMath = {
  name: "inlineMath",
  level: /** @type {const} */ ("inline"),
  start: (/** @type {string} */ text) => text.match(/\$|\\\(/)?.index,
  tokenizer(/** @type {string} */ text) {
    const found = /^(?:\$(?![\s$])((?:\\.|[^\\$\n])+?)(?<!\s)\$(?!\d)|\\\(([\s\S]+?)\\\))/.exec(text);
    return found ? { type: "inlineMath", raw: found[0], text: found[1] ?? found[2] } : undefined;
  },
  renderer: (/** @type {any} */ token) => `<span class="math" data-display="inline">${escapeHtml(token.text)}</span>`,
};

/** @type {Record<string, (this: any, token: any) => string>} */
const renderer = {
  html: (token) => escapeHtml(token.text),
  code: ({ text, lang }) => {
    const language = /^[\w+#-]+/.exec(lang ?? "")?.[0].toLowerCase() ?? "";
    const label = language ? ` data-language="${escapeHtml(language)}"` : "";
    return `<pre tabindex="0"${label}><code>${highlight(text, language)}</code></pre>`;
  },
  link({ href, tokens }) {
    const text = this.parser.parseInline(tokens);
    if (!SAFE_URL.test(href)) return text;
    return `<a href="${escapeHtml(href)}" target="_blank" rel="noopener noreferrer nofollow">${text}</a>`;
  },
  image({ href, text }) {
    const label = escapeHtml(text || href.slice(0, 100));
    if (SAFE_IMAGE.test(href)) return `<img src="${escapeHtml(href)}" alt="${escapeHtml(text)}">`;
    if (!SAFE_URL.test(href)) return label;
    return `<a href="${escapeHtml(href)}" target="_blank" rel="noopener noreferrer nofollow">${label}</a>`;
  },
  // A disabled checkbox without a label says nothing to a screen reader.
  checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  table(token) {
    const row = (/** @type {any[]} */ cells, /** @type {string} */ tag) =>
      `<tr>${cells.map((cell) => `<${tag}>${this.parser.parseInline(cell.tokens)}</${tag}>`).join("")}</tr>`;
    const body = token.rows.map((cells) => row(cells, "td")).join("");
    return `<div class="scrolls" tabindex="0"><table><thead>${row(token.header, "th")}</thead><tbody>${body}</tbody></table></div>`;
  },
};
const marked = new Marked({ gfm: true, extensions: [blockMath, inlineMath], renderer });

/**
 * Return the blocks of a text, each with its source. While a text grows, only its last block changes.
 * @param {string} text
 */
export function splitBlocks(text) {
  const tokens = marked.lexer(text);
  const links = tokens.links;
  return tokens.filter((token) => token.type !== "space").map((token) => ({ token, links }));
}

/**
 * @param {ReturnType<typeof splitBlocks>[number]} block
 * @returns {string} sanitized HTML; where the browser has Trusted Types, a TrustedHTML
 */
export function renderBlock({ token, links }) {
  const tokens = Object.assign([token], { links });
  return sanitize(/** @type {string} */ (marked.parser(tokens)));
}

/** @param {string} markup @returns {string} */
export function sanitize(markup) {
  const options = {
    USE_PROFILES: { html: true },
    FORBID_TAGS: ["style", "form", "input", "button", "textarea", "select", "audio", "video", "source", "picture"],
    FORBID_ATTR: ["style", "id", "name", "srcset"],
    ADD_ATTR: ["target"],
    RETURN_TRUSTED_TYPE: "trustedTypes" in window,
  };
  return /** @type {any} */ (DOMPurify.sanitize(markup, /** @type {any} */ (options)));
}

/**
 * Write the formulas of an element as MathML.
 * @param {Element} element
 */
export function renderMath(element) {
  const { temml } = /** @type {any} */ (window);
  if (!temml) return;
  for (const one of element.querySelectorAll(".math:not([data-done])")) {
    const source = one.textContent ?? "";
    const displayMode = one.getAttribute("data-display") === "block";
    temml.render(source, one, { displayMode, throwOnError: false, trust: false, maxExpand: 1000, maxSize: [20, 20] });
    one.setAttribute("data-done", "");
  }
}
