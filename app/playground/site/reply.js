/** @file `Reply`: a reply as it grows, in the same parts whatever the format of its frames. */

/**
 * @typedef {object} Part
 * @property {"reasoning" | "content" | "call" | "result" | "media" | "other"} kind
 * @property {string} text the text; of a call its arguments, of media its URL, of other things JSON
 * @property {string} [name] the function of a call or result, the name of a file
 * @property {string} [id] the id of a call, or of the call that a result belongs to
 * @property {boolean} [done] nothing more comes
 * @property {boolean} [error] the result is an error
 * @property {string} [server] the server of tools that the gateway asks; `name` begins with it
 * @property {boolean} [approval] the gateway runs the call when it is approved
 */

export class Reply {
  constructor() {
    /** @type {Part[]} */
    this.parts = [];
    /** @type {Map<string, Part>} */
    this._byKey = new Map();
    this.finished = false;
    /** @type {string | null} */
    this.finishReason = null;
    /** @type {Record<string, any> | null} */
    this.usage = null;
    /** @type {Record<string, any> | null} */
    this.error = null;
    /** @type {string[]} */
    this.warnings = [];
    /** How many pieces of text or arguments have come. */
    this.deltas = 0;
  }

  /**
   * Return the part of this key; begin it if there is none.
   * @param {string} key unique in the reply
   * @param {Part["kind"]} kind
   * @param {{name?: string, id?: string}} [more]
   */
  part(key, kind, more = {}) {
    let part = this._byKey.get(key);
    if (!part) {
      part = { kind, text: "", done: false, ...more };
      this._byKey.set(key, part);
      this.parts.push(part);
    }
    return part;
  }

  /**
   * Add text to a part.
   * @param {string} key
   * @param {Part["kind"]} kind
   * @param {string | null | undefined} text
   */
  append(key, kind, text) {
    if (!text) return;
    this.part(key, kind).text += text;
    this.deltas += 1;
  }

  /** @param {string} key of a part, if there is one */
  finishPart(key) {
    const part = this._byKey.get(key);
    if (part) part.done = true;
  }

  /**
   * Replace the text of a part by a longer one.
   * @param {Part} part
   * @param {string} text
   */
  grow(part, text) {
    if (text === part.text) return;
    part.text = text;
    this.deltas += 1;
  }

  /**
   * @param {string | null | undefined} reason
   * @param {Record<string, any> | null | undefined} [usage]
   */
  finish(reason, usage) {
    this.finished = true;
    this.finishReason = reason ?? this.finishReason;
    this.usage = usage ?? this.usage;
    for (const part of this.parts) part.done = true;
  }

  /** @param {Record<string, any>} error */
  fail(error) {
    this.finished = true;
    this.error = error;
    for (const part of this.parts) part.done = true;
  }

  /**
   * Add the result of a call that the gateway has run.
   * @param {string} id of the call
   * @param {string} text
   * @param {unknown} error whether it is an error
   */
  addResult(id, text, error) {
    const part = this.part(`result ${id}`, "result", { id, name: this.findCall(id)?.name });
    this.grow(part, text);
    Object.assign(part, { done: true, error: Boolean(error) });
  }

  /** @param {string} id @returns {Part | undefined} */
  findCall(id) {
    return this.calls.find((part) => part.id === id);
  }

  /** @returns {Part[]} */
  get calls() {
    return this.parts.filter((part) => part.kind === "call");
  }
}
