/**
 * @file Splits a Markdown text into blocks while it grows. Only the last block is parsed again. Text that would take the
 * parser long (nested hundreds of times, thousands of marks without an empty line, megabytes) becomes blocks of plain text.
 */

import { lex } from "./markdown.js";

/** Characters of one text that are parsed; what follows is plain. */
const MAX_PARSED = 100_000;
/** Blocks of one text that are rendered as Markdown. */
const MAX_BLOCKS = 1_000;
/** Characters without an empty line that are parsed. */
const MAX_PARAGRAPH = 30_000;
/** Characters that are parsed at once, and a paragraph. */
const SECTION = 8_000;
/** Marks of emphasis in one paragraph, list item or row. marked compares each with all before it: 1,000 take 0.3 s. */
const MAX_MARKS = 300;
/** Characters of one block of plain text: only the last such block is written again while a text grows. */
const PLAIN_PIECE = 16_000;

const FENCE = /^ {0,3}(`{3,}|~{3,})[^\n]*$/;
const DEEP = /^(?:[ \t]*(?:>|[-*+]|\d{1,9}[.)])){20}/m;
const MARKS = /[*_~]+/g;
/** Where a list item, row, heading or quotation begins: emphasis does not go beyond it. */
const ITEM = /^[ \t]*(?:[-+*|#>]|\d{1,9}[.)])/m;

/** The data of an image, which may be megabytes without an empty line. */
const PICTURE_DATA = /\(data:image\/[^)\s]*/g;
/** An image whose data is still coming. */
const UNFINISHED_PICTURE = /!\[[^\]\n]*\]\(data:image\/[^)\s]*$/;

/**
 * A part of the text, whose source is `raw`. Plain text is shown as `text`.
 * @typedef {{kind: "markdown", raw: string, token: any, links: Record<string, any>} | {kind: "plain", raw: string, text: string}} Block
 */

export class GrowingBlocks {
  constructor() {
    this._restart("");
  }

  /** @param {string} text */
  _restart(text) {
    this._text = text;
    /** The blocks that no later text can change. @type {Block[]} */
    this._finished = [];
    /** Where the first block begins that is not finished. */
    this._end = 0;
    /** The link definitions of the finished blocks. @type {Record<string, any>} */
    this._links = {};
  }

  /**
   * Return the blocks of the text. A block that did not change is the same object as before.
   * @param {string} text
   * @returns {Block[]}
   */
  update(text) {
    const unixText = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
    if (!unixText.startsWith(this._text)) this._restart(unixText);
    this._text = unixText;
    const unfinished = this._readUnfinished(unixText);
    const count = countFinished(unfinished);
    for (const block of unfinished.slice(0, count)) {
      this._finished.push(block);
      this._end += block.raw.length;
      if (block.kind === "markdown") Object.assign(this._links, block.links);
    }
    return this._finished.concat(unfinished.slice(count)).filter((block) => block.raw.trim());
  }

  /** @param {string} text @returns {Block[]} */
  _readUnfinished(text) {
    /** @type {Block[]} */
    let blocks = [];
    let at = this._end;
    const picture = UNFINISHED_PICTURE.exec(text.slice(at))?.[0] ?? "";
    for (const section of splitSections(text.slice(at, text.length - picture.length))) {
      const full = at >= MAX_PARSED || this._finished.length + blocks.length >= MAX_BLOCKS;
      blocks = blocks.concat(section.plain || full ? splitPlain(section.text) : this._parse(section.text));
      at += section.text.length;
    }
    return picture ? [...blocks, { kind: "plain", raw: picture, text: "…" }] : blocks;
  }

  /** @param {string} text @returns {Block[]} */
  _parse(text) {
    try {
      const tokens = lex(text, this._links);
      return tokens.map((token) => ({ kind: "markdown", raw: token.raw, token, links: tokens.links }));
    } catch {
      return splitPlain(text);
    }
  }
}

/**
 * How many of the blocks no later text can change: a block is finished when another one follows an empty line. Before that
 * its last line may still become part of another block (`text` and `---` are a heading).
 * @param {Block[]} blocks
 */
function countFinished(blocks) {
  for (let count = blocks.length - 1; count > 0; count--) {
    if (!blocks[count].raw.trim()) continue;
    const before = blocks[count - 1];
    if (before.kind === "plain" || /\n[ \t]*\n[ \t]*$/.test(before.raw)) return count;
  }
  return 0;
}

/**
 * Divide a text into sections that end at an empty line: what can be parsed together is one.
 * @param {string} text
 * @returns {{text: string, plain: boolean}[]}
 */
function splitSections(text) {
  /** @type {{text: string, plain: boolean}[]} */
  const sections = [];
  for (const paragraph of splitParagraphs(text)) {
    const plain = isCostly(paragraph);
    const last = sections.at(-1);
    if (last?.plain === plain && last.text.length < SECTION) last.text += paragraph;
    else sections.push({ text: paragraph, plain });
  }
  return sections;
}

/**
 * Yield a text in pieces that end after an empty line. Code between fences is one piece.
 * @param {string} text
 */
function* splitParagraphs(text) {
  let begin = 0;
  let fence = "";
  let blank = false;
  for (let at = 0; at < text.length; ) {
    const newline = text.indexOf("\n", at);
    const next = newline < 0 ? text.length : newline + 1;
    const line = text.slice(at, newline < 0 ? next : newline);
    if (blank && line.trim()) {
      yield text.slice(begin, at);
      begin = at;
      blank = false;
    }
    const mark = FENCE.exec(line)?.[1];
    if (fence ? mark?.startsWith(fence) && line.trim() === mark : mark) fence = fence ? "" : (mark ?? "");
    blank = !fence && !line.trim();
    at = next;
  }
  if (begin < text.length) yield text.slice(begin);
}

/** @param {string} paragraph */
function isCostly(paragraph) {
  if (DEEP.test(paragraph)) return true;
  if (FENCE.test(paragraph.slice(0, paragraph.indexOf("\n")))) return paragraph.length > MAX_PARSED;
  const written = paragraph.replace(PICTURE_DATA, "");
  if (written.length > MAX_PARAGRAPH) return true;
  return written.split(ITEM).some((item) => (item.match(MARKS)?.length ?? 0) > MAX_MARKS);
}

/**
 * Divide a text into blocks of plain text, at the ends of lines where there are any.
 * @param {string} text
 * @returns {Block[]}
 */
export function splitPlain(text) {
  /** @type {Block[]} */
  const blocks = [];
  for (let at = 0; at < text.length; ) {
    let end = Math.min(at + PLAIN_PIECE, text.length);
    if (end < text.length) {
      const newline = text.slice(at, end).lastIndexOf("\n") + 1;
      if (newline > 0) end = at + newline;
      else if (/[\uD800-\uDBFF]/.test(text[end - 1])) end -= 1;
    }
    const piece = text.slice(at, end);
    blocks.push({ kind: "plain", raw: piece, text: piece });
    at = end;
  }
  return blocks;
}
