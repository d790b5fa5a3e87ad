/** @file The warnings of a conversion or of a reply, each at the message that it is about. */

/** @typedef {import("./json_marks.js").Violation} Loss */

/**
 * Split warnings such as `messages[2].content[0]: cannot be written` by the message that they name.
 * @param {string[]} warnings
 * @returns {{byMessage: Map<number, Loss[]>, others: string[]}}
 */
export function splitByMessage(warnings) {
  /** @type {Map<number, Loss[]>} */
  const byMessage = new Map();
  const others = [];
  for (const warning of warnings) {
    const [, param, index] = /^(messages\[(\d+)\][^\s:]*)/.exec(warning) ?? [];
    if (param === undefined) {
      others.push(warning);
      continue;
    }
    const message = warning.slice(param.length).replace(/^:?\s*/, "");
    byMessage.set(Number(index), [...(byMessage.get(Number(index)) ?? []), { param, message }]);
  }
  return { byMessage, others };
}
