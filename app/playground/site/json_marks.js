/** @file The mistakes of a JSON text with their places, for `JsonArea`. */

import { findLine, findPaths, findSyntaxMistake, readPath } from "./json_places.js";
import { t } from "./texts.js";

/**
 * @typedef {object} Mark
 * @property {number} start
 * @property {number} end
 * @property {string} text what is wrong there, or lost
 * @property {"wrong" | "lost"} kind
 */

/** @typedef {{param: string | null, message: string}} Violation of the gateway */

/** @param {string} text @returns {Mark[]} the first mistake of syntax, if there is one */
export function markSyntax(text) {
  const found = findSyntaxMistake(text);
  return found ? [{ start: found.start, end: found.end, text: t(`json_${found.kind}`), kind: "wrong" }] : [];
}

/** Mark the mistake of a text that must be a list or an object; an empty one may stay. @param {string} text @param {"list" | "object"} shape */
export function markShape(text, shape) {
  if (!text.trim()) return [];
  const syntax = markSyntax(text);
  if (syntax.length) return syntax;
  const value = JSON.parse(text);
  const isList = Array.isArray(value);
  const fits = shape === "list" ? isList : typeof value === "object" && value !== null && !isList;
  /** @type {Mark[]} */
  const marks = [{ start: 0, end: text.length, text: shape === "list" ? t("notAList") : t("notAnObject"), kind: "wrong" }];
  return fits ? [] : marks;
}

/**
 * Mark what the gateway found. `text` is valid JSON: messages alone, or an object with `messages` or `input`.
 * @param {string} text
 * @param {Violation[]} violations
 * @param {Mark["kind"]} [kind]
 * @returns {Mark[]}
 */
export function markMessages(text, violations, kind = "wrong") {
  const value = JSON.parse(text);
  const before = Array.isArray(value) ? [] : [value?.messages === undefined ? "input" : "messages"];
  return markPaths(text, violations, kind, (path) => [...before, ...path.slice(1)]);
}

/**
 * Mark what the gateway found in one message. `text` is its JSON.
 * @param {string} text
 * @param {Violation[]} violations
 */
export const markMessage = (text, violations) => markPaths(text, violations, "wrong", (path) => path.slice(2));

/**
 * @param {string} text
 * @param {Violation[]} violations
 * @param {Mark["kind"]} kind
 * @param {(path: (string | number)[]) => (string | number)[]} locate
 * @returns {Mark[]}
 */
function markPaths(text, violations, kind, locate) {
  const ranges = findPaths(text, violations.map(({ param }) => locate(readPath(param ?? ""))));
  return violations.map((one, index) => ({ ...ranges[index], text: describeViolation(one), kind }));
}

/** @param {Violation} violation @returns {string} its path, and what is wrong there */
export function describeViolation({ param, message }) {
  return param ? `${param}: ${message.replace(`${param}: `, "")}` : message;
}

/** @param {string} text the JSON @param {Mark} mark @returns {string} its line and column, and what is wrong */
export function describeMark(text, mark) {
  return t("atLine", { ...findLine(text, mark.start), text: mark.text });
}
