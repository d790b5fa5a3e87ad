/** @file What the request log keeps: read it, and compare what a client sent with what a model server got. */

import { FORMATS } from "./formats/index.js";
import { send, sendJson } from "./gateway.js";

/**
 * @typedef {object} LoggedBody one of `parts` of `GET /v1/requests/{id}`
 * @property {"client_request" | "client_reply" | "upstream_request" | "upstream_reply"} kind
 * @property {number} exchange
 * @property {number} size
 * @property {boolean} is_cut
 * @property {number} status
 * @property {string} upstream
 * @property {string} path
 * @property {[string, string][]} headers
 * @property {[number, number][]} parts
 * @property {string} end
 * @property {string} text
 */

/** What `GET /v1/requests` lists. @typedef {Record<string, any> & {id: string, parts?: LoggedBody[]}} LoggedRequest */

export const EXPORTS = ["report", "har", "curl", "otel"];
export const PAGE_SIZE = 50;

/** The formats of the endpoints' messages; `/v1/chat` names its own. @type {Record<string, string>} */
const ENDPOINT_FORMATS = { completions: "openai", messages: "anthropic", responses: "responses", gemini: "gemini" };

/**
 * @param {Record<string, string>} filters empty ones are left out
 * @param {AbortSignal} [signal]
 * @returns {Promise<{data: LoggedRequest[], next: string | null}>}
 */
export async function readRequests(filters, signal) {
  const given = Object.entries(filters).filter(([, value]) => value);
  const query = new URLSearchParams([...given, ["limit", String(PAGE_SIZE)]]);
  return (await send("GET", `v1/requests?${query}`, { signal })).json();
}

/** @param {string} id @returns {Promise<LoggedRequest & {parts: LoggedBody[]}>} */
export const readRequest = (id) => sendJson("GET", `v1/requests/${encodeURIComponent(id)}`);

/** @param {string} id */
export const deleteRequest = (id) => sendJson("DELETE", `v1/requests/${encodeURIComponent(id)}`);

/** @param {string} id @param {string} form */
export const exportRequest = (id, form) => send("GET", `v1/requests/${encodeURIComponent(id)}/export?as=${form}`);

/** @param {LoggedRequest} entry @param {LoggedBody["kind"]} kind @returns {LoggedBody | undefined} the last one */
export const findBody = (entry, kind) => entry.parts?.findLast((part) => part.kind === kind);

/** @param {string | undefined} text @returns {any} undefined if it is not JSON */
function parse(text) {
  try {
    return JSON.parse(text ?? "");
  } catch {
    return undefined;
  }
}

/**
 * Return the conversation of a request as the chat of this page has it; null if its body is not kept whole.
 * @param {LoggedRequest} entry
 */
export function readConversation(entry) {
  const body = parse(findBody(entry, "client_request")?.text);
  const given = body?.messages ?? body?.input ?? body?.contents;
  if (given === undefined) return null;
  const named = ENDPOINT_FORMATS[entry.endpoint] ?? body.format;
  const format = named in FORMATS ? named : "qwen";
  const system = readText(body.system ?? body.instructions ?? body.systemInstruction?.parts);
  const messages = [
    ...(system ? [FORMATS[format].writeSystem(system)] : []),
    ...(typeof given === "string" ? [FORMATS[format].writeUser(given, [])] : Array.isArray(given) ? given : []),
  ];
  const tools = body.functions ?? body.tools;
  return { format, messages, functions: Array.isArray(tools) && tools.length ? JSON.stringify(tools, null, 2) : "" };
}

/** @param {any} value a text, or a list of blocks */
function readText(value) {
  if (typeof value === "string") return value;
  return Array.isArray(value) ? value.map((block) => block?.text ?? "").join("\n") : "";
}

/** @param {string} text @returns {string} JSON with a value on each line, with the names in one order; other text as it is */
export function writeLines(text) {
  const value = parse(text);
  return value === undefined ? text : JSON.stringify(sortNames(value), null, 1);
}

/** @param {any} value @returns {any} */
function sortNames(value) {
  if (Array.isArray(value)) return value.map(sortNames);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.keys(value).sort().map((name) => [name, sortNames(value[name])]));
}

/** More lines are only compared at their begin and end. */
const MAX_COMPARED = 1500;

/**
 * @param {string[]} before
 * @param {string[]} after
 * @returns {[boolean[], boolean[]]} which lines of each have no equal line in the other, in order
 */
export function findChanged(before, after) {
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head++;
  let tail = 0;
  const most = Math.min(before.length, after.length) - head;
  while (tail < most && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail++;
  const [one, other] = [before.slice(head, before.length - tail), after.slice(head, after.length - tail)];
  const [kept, keptOther] = one.length > MAX_COMPARED || other.length > MAX_COMPARED ? [new Set(), new Set()] : findCommon(one, other);
  return [
    before.map((_, at) => at >= head && at < before.length - tail && !kept.has(at - head)),
    after.map((_, at) => at >= head && at < after.length - tail && !keptOther.has(at - head)),
  ];
}

/** So many equal lines are shown beside those that differ. */
const CONTEXT = 20;
/** Shorter texts are shown whole. */
const FOLDED_FROM = 400;
const MAX_LINES = 4000;

/**
 * Leave out equal lines: a request of an agent has tens of thousands.
 * @param {boolean[]} changed
 * @returns {(number | {left: number})[]} the places of the lines that are shown, and how many are left out between them
 */
export function foldLines(changed) {
  const places = [...changed.keys()];
  if (changed.length <= FOLDED_FROM) return places;
  const near = changed.map(() => false);
  for (const order of [places, [...places].reverse()]) {
    let distance = CONTEXT + 1;
    for (const at of order) {
      distance = changed[at] ? 0 : distance + 1;
      near[at] ||= distance <= CONTEXT;
    }
  }
  const shown = places.filter((at) => near[at]).slice(0, MAX_LINES);
  /** @type {(number | {left: number})[]} */
  const rows = [];
  let next = 0;
  for (const at of [...shown, changed.length]) {
    if (at > next) rows.push({ left: at - next });
    if (at < changed.length) rows.push(at);
    next = at + 1;
  }
  return rows;
}

/** The longest common subsequence. @param {string[]} one @param {string[]} other @returns {[Set<number>, Set<number>]} */
function findCommon(one, other) {
  const width = other.length + 1;
  const lengths = new Uint16Array((one.length + 1) * width);
  for (let row = one.length - 1; row >= 0; row--) {
    for (let column = other.length - 1; column >= 0; column--) {
      lengths[row * width + column] =
        one[row] === other[column]
          ? lengths[(row + 1) * width + column + 1] + 1
          : Math.max(lengths[(row + 1) * width + column], lengths[row * width + column + 1]);
    }
  }
  const kept = new Set();
  const keptOther = new Set();
  for (let row = 0, column = 0; row < one.length && column < other.length; ) {
    if (one[row] === other[column]) {
      kept.add(row++);
      keptOther.add(column++);
    } else if (lengths[(row + 1) * width + column] >= lengths[row * width + column + 1]) row++;
    else column++;
  }
  return [kept, keptOther];
}
