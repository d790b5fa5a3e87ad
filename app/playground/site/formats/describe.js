/** @file Reads a message of any format for display. What it does not know, it shows as JSON. */

import { mcpErrorText, readWaiting, resultText } from "./parts.js";

/** @typedef {import("../reply.js").Part} Part */
/** @typedef {"system" | "user" | "assistant" | "function"} Role */

/** @type {Record<string, Role>} */
const ROLES = { system: "system", developer: "system", user: "user", assistant: "assistant", model: "assistant", tool: "function", function: "function" };

/** A message is replaced, never changed. @type {WeakMap<object, {role: Role, parts: Part[], unknownRole?: string}>} */
const described = new WeakMap();

/**
 * @param {any} message of any shape: it may have been written or pasted by hand
 * @returns {{role: Role, parts: Part[], unknownRole?: string}} `unknownRole` as it is written, if no format has it
 */
export function describe(message) {
  if (typeof message !== "object" || message === null) return describeAny(message);
  let known = described.get(message);
  if (!known) described.set(message, (known = describeAny(message)));
  return known;
}

/** @param {any} message @returns {{role: Role, parts: Part[], unknownRole?: string}} */
function describeAny(message) {
  try {
    return describeObject(message);
  } catch {
    return { role: "user", parts: [other(message)] };
  }
}

/** Throws a TypeError where a field has another type than its format says. @param {any} message @returns {{role: Role, parts: Part[], unknownRole?: string}} */
function describeObject(message) {
  if (typeof message !== "object" || message === null) return { role: "user", parts: [other(message)] };
  const parts = [...readParts(withFileNames(message))].filter((part) => part.text || part.kind === "call" || part.kind === "result");
  for (const { text, name, id } of parts) {
    if ([text, name ?? "", id ?? ""].some((value) => typeof value !== "string")) throw new TypeError("not a string");
  }
  const waiting = readWaiting(message);
  for (const part of parts) if (part.kind === "call" && part.id && waiting.includes(part.id)) part.approval = true;
  const results = parts.length > 0 && parts.every((part) => part.kind === "result");
  const role = results ? "function" : readRole(message, parts);
  const known = message.role === undefined || (typeof message.role === "string" && Object.hasOwn(ROLES, message.role));
  return known ? { role, parts } : { role, parts, unknownRole: JSON.stringify(message.role) };
}

/** Qwen-Agent has no key for the name of a file: Parley keeps it in `extra`. @param {any} message */
function withFileNames(message) {
  const notes = message.extra?.parley?.media;
  if (!Array.isArray(notes) || !Array.isArray(message.content)) return message;
  const names = new Map(notes.map(({ at, name }) => [at, name]));
  const content = message.content.map((/** @type {any} */ item, /** @type {number} */ at) => {
    return names.has(at) && typeof item === "object" ? { ...item, name: names.get(at) } : item;
  });
  return { ...message, content };
}

/**
 * @param {any} message
 * @param {Part[]} parts
 * @returns {Role}
 */
function readRole(message, parts) {
  if (Object.hasOwn(ROLES, message.role)) return ROLES[message.role];
  if (message.type === "SystemMessage") return "system";
  if (/^mcp_(list_tools|call|approval_request)$/.test(message.type)) return "assistant";
  if (message.source !== undefined) {
    const own = /Thought|ToolCall/.test(message.type) || message.source !== "user";
    return own ? "assistant" : "user";
  }
  return parts.some((part) => part.kind === "call" || part.kind === "reasoning") ? "assistant" : "user";
}

/**
 * @param {any} message
 * @returns {Generator<Part>}
 */
function* readParts(message) {
  if (Array.isArray(message.server_messages)) {
    for (const one of splitServerMessages(message)) yield* readParts(one);
    return;
  }
  if (Array.isArray(message.parts)) {
    for (const part of message.parts) yield readGeminiPart(part);
    return;
  }
  if (message.reasoning_content) yield* readContent(message.reasoning_content, "reasoning");
  if (message.type === "reasoning") {
    yield* readContent([...(message.content ?? []), ...(message.summary ?? [])], "reasoning");
  } else if (message.type === "function_call" || message.type === "custom_tool_call") {
    yield call(message.name, message.arguments ?? message.input, message.call_id);
  } else if (message.type === "function_call_output" || message.type === "custom_tool_call_output") {
    yield result(message.output, undefined, message.call_id);
  } else if (message.type === "mcp_call" || message.type === "mcp_approval_request") {
    yield* readMcpCall(message);
  } else if (message.role === "tool" || message.role === "function") {
    const error = message.is_error ?? message.extra?.is_error;
    yield result(message.content, message.name, message.tool_call_id ?? message.extra?.function_id, error);
  } else if (message.type === "ThoughtEvent" && message.metadata?.kind !== "content") {
    yield* readContent(message.content, "reasoning");
  } else if (message.content !== undefined && message.content !== null) {
    yield* readContent(message.content, "content");
  } else if (!message.tool_calls && !message.function_call && !message.reasoning_content) {
    yield other(message);
  }
  if (message.function_call) {
    const { name, arguments: text } = message.function_call;
    yield { ...call(name, text, message.extra?.function_id), approval: message.extra?.approval === "required" };
  }
  for (const one of message.tool_calls ?? []) {
    yield { ...call(one.function?.name, one.function?.arguments, one.id), approval: one.approval === "required" };
  }
}

/** @param {any} part of a message of Google's Gemini @returns {Part} */
function readGeminiPart(part) {
  const { functionCall: asked, functionResponse: answer, inlineData: data, fileData: file } = part;
  if (asked) return call(asked.name, asked.args, asked.id);
  if (answer) {
    const { result: value, error } = answer.response;
    return result(value ?? error ?? JSON.stringify(answer.response), answer.name, answer.id, error !== undefined);
  }
  if (data) return { kind: "media", text: `data:${data.mimeType};base64,${data.data}`, name: data.displayName, done: true };
  if (file) return { kind: "media", text: file.fileUri, name: file.displayName, done: true };
  if (typeof part.text !== "string") return other(part);
  return { kind: part.thought ? "reasoning" : "content", text: part.text, done: true };
}

/** @param {any} item of OpenAI's Responses @returns {Generator<Part>} the call and, if it has run, its result */
function* readMcpCall(item) {
  const { server_label: server, output, error } = item;
  const name = `${server}-${item.name}`;
  const id = String(item.id).replace(/^mcpr?_/, "");
  yield { ...call(name, item.arguments, id), server, approval: item.type === "mcp_approval_request" };
  if (item.type === "mcp_call") yield { ...result(output ?? mcpErrorText(error), name, id, error), server };
}

/**
 * Split a message of OpenAI into the turns and results of `server_messages` and what follows them. Its texts are those of
 * all turns, joined; if they were edited, they stand alone.
 * @param {any} message
 * @returns {any[]}
 */
function splitServerMessages({ server_messages: turns, ...last }) {
  const ids = turns.flatMap((/** @type {any} */ one) => one.tool_calls ?? []).map((/** @type {any} */ one) => one.id);
  const calls = (last.tool_calls ?? []).filter((/** @type {any} */ one) => !ids.includes(one.id));
  /** @type {Record<string, any>} */
  const rest = { ...last, content: last.content ?? "", tool_calls: calls };
  let told = turns;
  for (const key of ["content", "reasoning_content"]) {
    const text = turns.map((/** @type {any} */ one) => (one.role === "assistant" ? (one[key] ?? "") : "")).join("");
    if (typeof rest[key] === "string" && rest[key].startsWith(text)) rest[key] = rest[key].slice(text.length);
    else told = told.map((/** @type {any} */ one) => (one.role === "assistant" ? { ...one, [key]: "" } : one));
  }
  return [...told, rest];
}

/**
 * @param {any} content
 * @param {"reasoning" | "content"} kind
 * @returns {Generator<Part>}
 */
function* readContent(content, kind) {
  if (typeof content === "string") {
    yield { kind, text: content, done: true };
  } else if (Array.isArray(content)) {
    for (const item of content) yield typeof item === "string" ? { kind, text: item, done: true } : readItem(item, kind);
  } else {
    yield other(content);
  }
}

/**
 * @param {any} item
 * @param {"reasoning" | "content"} kind
 * @returns {Part}
 */
function readItem(item, kind) {
  if (typeof item !== "object" || item === null) return other(item);
  if (item.type === "tool_use" || item.type === "tool_call") {
    return { ...call(item.name, item.raw_input ?? item.input ?? item.arguments, item.id), approval: item.state === "asking" };
  }
  if (item.type === "mcp_tool_use") {
    return { ...call(`${item.server_name}-${item.name}`, item.input, item.id), server: item.server_name };
  }
  if (item.type === "tool_result" || item.type === "mcp_tool_result") {
    const error = item.is_error ?? item.state === "error";
    return result(item.content ?? item.output, item.name, item.tool_use_id ?? item.id, error);
  }
  if (item.call_id !== undefined) return result(item.content, item.name, item.call_id, item.is_error);
  if (item.arguments !== undefined && item.name) return call(item.name, item.arguments, item.id);
  if (item.thinking !== undefined) return { kind: "reasoning", text: item.thinking, done: true };
  if (typeof item.text === "string") return { kind, text: item.text, done: true };
  if (typeof item.refusal === "string") return { kind, text: item.refusal, done: true };
  return readMedia(item) ?? other(item);
}

/** @param {any} item @returns {Part | null} */
function readMedia(item) {
  const { source } = item;
  const file = item.file;
  const url =
    item.image_url?.url ??
    item.image_url ??
    item.image ??
    item.audio ??
    item.video ??
    item.file_data ??
    (typeof file === "string" ? file : file?.file_data) ??
    item.file_url ??
    source?.url ??
    (source?.data && `data:${source.media_type};base64,${source.data}`) ??
    (item.data && `data:image/*;base64,${item.data}`);
  if (typeof url !== "string") return null;
  const name = item.name ?? item.filename ?? item.title ?? file?.filename;
  return { kind: "media", text: url, name, done: true };
}

/** @param {string} name @param {any} value @param {string} [id] @returns {Part} */
function call(name, value, id) {
  return { kind: "call", name, id, text: typeof value === "string" ? value : JSON.stringify(value ?? {}), done: true };
}

/** @param {any} value @param {string} [name] @param {string} [id] @param {boolean} [error] @returns {Part} */
function result(value, name, id, error) {
  return { kind: "result", name, id, text: resultText(value), done: true, error: Boolean(error) };
}

/** @param {any} value @returns {Part} */
function other(value) {
  return { kind: "other", text: JSON.stringify(value, null, 2) ?? "", done: true };
}

/** @param {any[]} messages @returns {Map<string | undefined, Part>} their calls by id */
export function findCalls(messages) {
  const calls = messages.flatMap((message) => describe(message).parts).filter((part) => part.kind === "call");
  return new Map(calls.map((part) => [part.id, part]));
}

/**
 * Return the part; a result whose format has no name of its function gets that of its call.
 * @param {Part} part
 * @param {Map<string | undefined, Part>} calls by id
 */
export function nameResult(part, calls) {
  const call = part.kind === "result" && !part.name && part.id ? calls.get(part.id) : undefined;
  return call ? { ...part, name: call.name, server: call.server } : part;
}

/** @param {any[]} messages @returns {Part[]} the calls that have no result yet */
export function findOpenCalls(messages) {
  /** @type {Map<string, Part>} */
  const open = new Map();
  for (const message of messages) {
    for (const part of describe(message).parts) {
      if (part.kind === "call") open.set(part.id ?? part.name ?? "", part);
      else if (part.kind === "result") open.delete(part.id ?? part.name ?? "");
    }
  }
  return [...open.values()];
}
