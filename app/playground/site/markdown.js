/**
 * @file Markdown of a model as HTML without anything that runs or loads: HTML in the text is shown as text, images of
 * other servers become links, and DOMPurify removes what is left. The page's Trusted Types accept only its result.
 */

import DOMPurify from "./vendor/dompurify.js";
import hljs from "./vendor/highlight.js";
import { Marked } from "./vendor/marked.js";

/** Characters of code that are shown in colours. */
export const MAX_HIGHLIGHTED = 50_000;
/** Characters of one formula that are written as MathML. */
const MAX_FORMULA = 1_000;
/** Formulas of one block that are written as MathML: each takes up to 0.2 ms. */
const MAX_FORMULAS = 300;
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

/**
 * A formula: `$$…$$`, `\[…\]` as a block; `$…$`, `$$…$$`, `\(…\)` in a line. A dollar beside a letter, digit or underscore is not
 * the mark of a formula: `report_$USER_$DATE.txt` is a name.
 */
const blockMath = {
  name: "blockMath",
  level: /** @type {const} */ ("block"),
  start: (/** @type {string} */ text) => text.match(/^(?=\$\$|\\\[)/m)?.index,
  tokenizer(/** @type {string} */ text) {
    const found = /^(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])[ \t]*(?:\n|$)/.exec(text);
    return found ? { type: "blockMath", raw: found[0], text: found[1] ?? found[2] } : undefined;
  },
  renderer: (/** @type {any} */ token) => renderFormula(token, "block"),
};
const inlineMath = {
  name: "inlineMath",
  level: /** @type {const} */ ("inline"),
  start: (/** @type {string} */ text) => text.match(/(?<!\w)\$|\\\(/)?.index,
  tokenizer(/** @type {string} */ text, /** @type {any[]} */ before) {
    const found = /^(?:(\$\$?)(?![\s$])((?:\\.|[^\\$\n])+?)(?<!\s)\1(?![\w$])|\\\(([\s\S]+?)\\\))/.exec(text);
    if (!found || (text[0] === "$" && /\w$/.test(before.at(-1)?.raw ?? ""))) return undefined;
    return { type: "inlineMath", raw: found[0], text: found[2] ?? found[3] };
  },
  renderer: (/** @type {any} */ token) => renderFormula(token, "inline"),
};

/**
 * Return the place of a formula, with its source: `renderMath` writes the formula there, if it can.
 * @param {{raw: string, text: string}} token
 * @param {"block" | "inline"} display
 */
function renderFormula(token, display) {
  const tag = display === "block" ? "div" : "span";
  const source = token.text.trim();
  if (source.length > MAX_FORMULA) return `<${tag} class="source">${escapeHtml(token.raw)}</${tag}>`;
  return `<${tag} class="math" data-display="${display}" data-source="${escapeHtml(source)}">${escapeHtml(token.raw.trim())}</${tag}>`;
}

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
 * Parse a text. Throws a RangeError for one that is nested too deeply.
 * @param {string} text
 * @param {Record<string, any>} links the link definitions of the text before it
 * @returns {any[] & {links: Record<string, any>}} the tokens, whose sources together are the text
 */
export function lex(text, links) {
  const lexer = new marked.Lexer(marked.defaults);
  Object.assign(lexer.tokens.links, links);
  return lexer.lex(text);
}

/**
 * Throws where the parser or its renderers fail: the caller then shows the source.
 * @param {{token: any, links: Record<string, any>}} block
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
 * Write the formulas of an element as MathML. One that is not valid TeX stays as its source.
 * @param {Element} element
 */
export function renderMath(element) {
  const { temml } = /** @type {any} */ (window);
  if (!temml) return;
  for (const one of [...element.querySelectorAll(".math[data-source]")].slice(0, MAX_FORMULAS)) {
    const source = one.getAttribute("data-source") ?? "";
    const displayMode = one.getAttribute("data-display") === "block";
    const formula = document.createElement("span");
    one.removeAttribute("data-source");
    try {
      temml.render(source, formula, { displayMode, throwOnError: true, trust: false, maxExpand: 1000, maxSize: [20, 20] });
      one.replaceChildren(...formula.childNodes);
    } catch {
      one.className = "source";
    }
  }
}
