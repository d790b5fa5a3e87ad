/**
 * @file Where something is in a JSON text: a mistake of syntax, or the value at a path such as `messages[1].role`.
 * `JSON.parse` names no place in some browsers, and never the place of a value.
 */

/**
 * @typedef {object} Node a value in the text
 * @property {number} start
 * @property {number} end behind its last character
 * @property {Map<string, {start: number, node: Node}>} [members] of an object; `start` is where the key begins
 * @property {Node[]} [items] of a list
 *
 * @typedef {object} Range
 * @property {number} start
 * @property {number} end
 *
 * @typedef {Range & {kind: MistakeKind}} SyntaxMistake
 * @typedef {"value" | "key" | "colon" | "object" | "list" | "comma" | "quote" | "break" | "escape" | "word" | "number" |
 *   "rest" | "end" | "depth"} MistakeKind
 */

const MAX_DEPTH = 500;
const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORD = /"[^"\n]*"?|[^\s,:\]}[{"]+/y;

class Mistake extends Error {
  /** @param {MistakeKind} kind @param {number} start @param {number} end */
  constructor(kind, start, end) {
    super(kind);
    this.found = { kind, start, end };
  }
}

class Scanner {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  /** @returns {Node} */
  document() {
    const node = this.value(0);
    this.space();
    if (this.at < this.text.length) this.fail("rest", this.text.length);
    return node;
  }

  space() {
    this.take(SPACE);
  }

  /** @param {RegExp} pattern sticky */
  take(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0] ?? "";
    this.at += found.length;
    return found;
  }

  /** @param {MistakeKind} kind @param {number} [end] @returns {never} */
  fail(kind, end) {
    if (this.at >= this.text.length && kind !== "quote") throw new Mistake("end", this.text.trimEnd().length, this.text.length);
    throw new Mistake(kind, this.at, end ?? this.at + this.peekWord().length);
  }

  /** What stands here, to be marked. */
  peekWord() {
    const before = this.at;
    const word = this.take(WORD) || this.text[this.at] || "";
    this.at = before;
    return word;
  }

  /** @param {number} depth @returns {Node} */
  value(depth) {
    if (depth > MAX_DEPTH) this.fail("depth");
    this.space();
    const start = this.at;
    switch (this.text[this.at]) {
      case "{":
        return this.object(depth);
      case "[":
        return this.list(depth);
      case '"':
        return this.string();
    }
    if (/[-\d]/.test(this.text[this.at] ?? "")) {
      const word = this.peekWord();
      if (this.take(NUMBER) !== word) {
        this.at = start;
        this.fail("number");
      }
      return { start, end: this.at };
    }
    const word = this.peekWord();
    if (word === "true" || word === "false" || word === "null") {
      this.at += word.length;
      return { start, end: this.at };
    }
    return this.fail(/^[A-Za-z_']/.test(word) ? "word" : "value");
  }

  /** @param {number} depth @returns {Node} */
  object(depth) {
    const start = this.at++;
    const members = new Map();
    this.space();
    if (this.text[this.at] === "}") return { start, end: ++this.at, members };
    for (;;) {
      this.space();
      const keyStart = this.at;
      if (this.text[this.at] !== '"') this.fail("key");
      const key = this.string();
      this.space();
      if (this.text[this.at] !== ":") this.fail("colon");
      this.at += 1;
      const node = this.value(depth + 1);
      members.set(JSON.parse(this.text.slice(key.start, key.end)), { start: keyStart, node });
      if (this.closes("}", "object")) return { start, end: this.at, members };
    }
  }

  /** @param {number} depth @returns {Node} */
  list(depth) {
    const start = this.at++;
    /** @type {Node[]} */
    const items = [];
    this.space();
    if (this.text[this.at] === "]") return { start, end: ++this.at, items };
    for (;;) {
      items.push(this.value(depth + 1));
      if (this.closes("]", "list")) return { start, end: this.at, items };
    }
  }

  /** Read a comma, or the end of an object or list. @param {string} close @param {"object" | "list"} kind */
  closes(close, kind) {
    this.space();
    const comma = this.at;
    if (this.text[this.at] === close) {
      this.at += 1;
      return true;
    }
    if (this.text[this.at] !== ",") this.fail(kind);
    this.at += 1;
    this.space();
    if (this.text[this.at] === close) throw new Mistake("comma", comma, comma + 1);
    return false;
  }

  /** @returns {Node} */
  string() {
    const start = this.at++;
    for (;;) {
      const character = this.text[this.at];
      if (character === undefined) throw new Mistake("quote", start, this.text.length);
      if (character === "\n" || character === "\r") throw new Mistake("break", start, this.at);
      if (character < " ") this.fail("escape", this.at + 1);
      if (character === "\\" && !/^\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/.test(this.text.slice(this.at, this.at + 6))) {
        this.fail("escape", this.at + 2);
      }
      this.at += character === "\\" ? 2 : 1;
      if (character === '"') return { start, end: this.at };
    }
  }
}

/**
 * Return the first mistake of syntax; null for valid JSON.
 * @param {string} text
 * @returns {SyntaxMistake | null}
 */
export function findSyntaxMistake(text) {
  try {
    JSON.parse(text);
    return null;
  } catch {
    try {
      new Scanner(text).document();
      return { kind: "value", start: 0, end: 0 };
    } catch (error) {
      if (error instanceof Mistake) return error.found;
      throw error;
    }
  }
}

/**
 * Return the line and the column of a place, both counted from 1.
 * @param {string} text
 * @param {number} index
 */
export function findLine(text, index) {
  const before = text.slice(0, index).split("\n");
  return { line: before.length, column: before[before.length - 1].length + 1 };
}

/**
 * Return where each path is: its key and value, or the key alone of an object or list. For a key that is missing, the
 * nearest value around it. The text is valid JSON.
 * @param {string} text
 * @param {(string | number)[][]} paths as `readPath` returns them
 * @returns {Range[]}
 */
export function findPaths(text, paths) {
  const root = new Scanner(text).document();
  return paths.map((path) => findPath(root, path));
}

/** @param {Node} root @param {(string | number)[]} path @returns {Range} */
function findPath(root, path) {
  let node = root;
  /** @type {Range} */
  let range = { start: root.start, end: root.start + 1 };
  for (const step of path) {
    const member = typeof step === "number" ? undefined : node.members?.get(step);
    const next = typeof step === "number" ? node.items?.[step] : member?.node;
    if (!next) return range;
    const holdsMore = next.members !== undefined || next.items !== undefined;
    const start = member?.start ?? next.start;
    range = { start, end: holdsMore ? next.start + 1 : next.end };
    node = next;
  }
  return range;
}

/**
 * Split a path of an error: `messages[1].content[0]["a.b"]` is ["messages", 1, "content", 0, "a.b"].
 * @param {string} path
 * @returns {(string | number)[]}
 */
export function readPath(path) {
  return [...path.matchAll(/\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|([^.[\]]+)/g)].map(([, index, quoted, name]) => {
    if (index !== undefined) return Number(index);
    return quoted === undefined ? name : JSON.parse(quoted);
  });
}
