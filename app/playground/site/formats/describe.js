/** @file Reads a message of any format for display. What it does not know, it shows as JSON. */

/** @typedef {import("../reply.js").Part} Part */
/** @typedef {"system" | "user" | "assistant" | "function"} Role */

/** @type {Record<string, Role>} */
const ROLES = { system: "system", developer: "system", user: "user", assistant: "assistant", tool: "function", function: "function" };

/**
 * @param {any} message of any shape: it may have been written or pasted by hand
 * @returns {{role: Role, parts: Part[], unknownRole?: string}} `unknownRole` as it is written, if no format has it
 */
export function describe(message) {
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
  if (message.reasoning_content) yield* readContent(message.reasoning_content, "reasoning");
  if (message.type === "reasoning") {
    yield* readContent([...(message.content ?? []), ...(message.summary ?? [])], "reasoning");
  } else if (message.type === "function_call" || message.type === "custom_tool_call") {
    yield call(message.name, message.arguments ?? message.input, message.call_id);
  } else if (message.type === "function_call_output" || message.type === "custom_tool_call_output") {
    yield result(message.output, undefined, message.call_id);
  } else if (message.role === "tool" || message.role === "function") {
    yield result(message.content, message.name, message.tool_call_id ?? message.extra?.function_id);
  } else if (message.type === "ThoughtEvent" && message.metadata?.kind !== "content") {
    yield* readContent(message.content, "reasoning");
  } else if (message.content !== undefined && message.content !== null) {
    yield* readContent(message.content, "content");
  } else if (!message.tool_calls && !message.function_call && !message.reasoning_content) {
    yield other(message);
  }
  if (message.function_call) {
    const { name, arguments: text } = message.function_call;
    yield call(name, text, message.extra?.function_id);
  }
  for (const one of message.tool_calls ?? []) yield call(one.function?.name, one.function?.arguments, one.id);
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
    return call(item.name, item.raw_input ?? item.input ?? item.arguments, item.id);
  }
  if (item.type === "tool_result") return result(item.content ?? item.output, item.name, item.tool_use_id ?? item.id, item.is_error);
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
  const texts = Array.isArray(value) ? value.map((item) => item?.text ?? JSON.stringify(item)) : [value];
  const text = texts.map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join("\n");
  return { kind: "result", name, id, text, done: true, error: Boolean(error) };
}

/** @param {any} value @returns {Part} */
function other(value) {
  return { kind: "other", text: JSON.stringify(value, null, 2) ?? "", done: true };
}
