/** @file Writes the messages that the reader of the page adds, in each format. */

/**
 * @typedef {object} Attachment
 * @property {string} name
 * @property {string} mediaType `image/…`, or `application/pdf`
 * @property {string} url a data URL
 */

/** @param {Attachment} file */
const isImage = (file) => file.mediaType.startsWith("image/");
/** @param {Attachment} file */
const base64 = (file) => file.url.slice(file.url.indexOf(",") + 1);
/** @param {Attachment} file */
const source = (file) => ({ type: "base64", media_type: file.mediaType, data: base64(file) });
const newId = () => crypto.getRandomValues(new Uint32Array(2)).join("");
const now = () => new Date().toISOString().slice(0, 19);

/** @param {Attachment[]} files behind a text */
const nameFiles = (files) => files.map((file, index) => ({ at: index + 1, name: file.name })).filter(({ at }) => !isImage(files[at - 1]));

/** @type {Record<string, (text: string, files: Attachment[]) => any>} */
const USER = {
  qwen: (text, files) => ({
    role: "user",
    content: files.length
      ? [{ text }, ...files.map((file) => ({ [isImage(file) ? "image" : "file"]: file.url }))]
      : text,
    // Qwen-Agent has no key for the name of a file: Parley keeps it in `extra`.
    ...(!files.every(isImage) && { extra: { parley: { media: nameFiles(files) } } }),
  }),
  openai: (text, files) => ({
    role: "user",
    content: files.length ? [{ type: "text", text }, ...files.map(openaiPart)] : text,
  }),
  responses: (text, files) => ({
    type: "message",
    role: "user",
    content: files.length ? [{ type: "input_text", text }, ...files.map(responsesPart)] : text,
  }),
  anthropic: (text, files) => ({
    role: "user",
    content: files.length
      ? [
          ...files.map((file) =>
            isImage(file)
              ? { type: "image", source: source(file) }
              : { type: "document", title: file.name, source: source(file) },
          ),
          { type: "text", text },
        ]
      : text,
  }),
  autogen: (text, files) =>
    files.length
      ? { type: "MultiModalMessage", source: "user", content: [text, ...files.map((file) => ({ data: base64(file) }))] }
      : { type: "TextMessage", source: "user", content: text },
  agentscope: (text, files) => ({
    name: "user",
    role: "user",
    content: files.length
      ? [{ type: "text", text }, ...files.map((file) => ({ type: "image", source: source(file) }))]
      : text,
    metadata: {},
    timestamp: `${now().replace("T", " ")}.000`,
  }),
  agentscope2: (text, files) => ({
    ...scope2("user", "user"),
    content: [
      { type: "text", text },
      ...files.map((file) => ({ type: "data", source: source(file), name: file.name })),
    ],
  }),
};

/** @type {Record<string, (text: string) => any>} */
const SYSTEM = {
  qwen: (text) => ({ role: "system", content: text }),
  openai: (text) => ({ role: "system", content: text }),
  responses: (text) => ({ type: "message", role: "system", content: text }),
  anthropic: (text) => ({ role: "system", content: text }),
  autogen: (text) => ({ type: "SystemMessage", content: text }),
  agentscope: (text) => ({
    name: "system",
    role: "system",
    content: text,
    metadata: {},
    timestamp: `${now().replace("T", " ")}.000`,
  }),
  agentscope2: (text) => ({ ...scope2("system", "system"), content: [{ type: "text", text }] }),
};

/**
 * @typedef {object} Result
 * @property {string} id the id of the call
 * @property {string} name the function
 * @property {string} text what it returned
 */

/** @type {Record<string, (results: Result[]) => any[]>} */
const RESULTS = {
  qwen: (results) =>
    results.map(({ id, name, text }) => ({ role: "function", name, content: text, extra: { function_id: id } })),
  openai: (results) => results.map(({ id, text }) => ({ role: "tool", tool_call_id: id, content: text })),
  responses: (results) =>
    results.map(({ id, text }) => ({ type: "function_call_output", call_id: id, output: text })),
  anthropic: (results) => [
    {
      role: "user",
      content: results.map(({ id, text }) => ({ type: "tool_result", tool_use_id: id, content: text })),
    },
  ],
  autogen: (results) => [
    {
      type: "ToolCallExecutionEvent",
      source: "assistant",
      content: results.map(({ id, name, text }) => ({ call_id: id, name, content: text, is_error: false })),
    },
  ],
  agentscope: (results) =>
    results.map(({ id, name, text }) => ({
      name: "system",
      role: "system",
      content: [{ type: "tool_result", id, name, output: text }],
      metadata: {},
      timestamp: `${now().replace("T", " ")}.000`,
    })),
  agentscope2: (results) => [
    {
      ...scope2("assistant", "assistant"),
      content: results.map(({ id, name, text }) => ({
        type: "tool_result",
        id,
        name,
        output: text,
        state: "success",
      })),
    },
  ],
};

/**
 * Return a message of the user. Where the format has no field for a file, it is written in OpenAI's format and must be
 * converted: then `format` of the result is "openai".
 * @param {string} format
 * @param {string} text
 * @param {Attachment[]} files
 */
export function writeUser(format, text, files) {
  const onlyImages = files.every(isImage);
  const used = (format === "autogen" || format === "agentscope") && !onlyImages ? "openai" : format;
  return { format: used, message: USER[used](text, files) };
}

/** @param {string} format @param {string} text */
export const writeSystem = (format, text) => SYSTEM[format](text);

/** @param {string} format @param {Result[]} results */
export const writeResults = (format, results) => RESULTS[format](results);

/** @param {Attachment} file */
function openaiPart(file) {
  if (isImage(file)) return { type: "image_url", image_url: { url: file.url } };
  return { type: "file", file: { filename: file.name, file_data: file.url } };
}

/** @param {Attachment} file */
function responsesPart(file) {
  if (isImage(file)) return { type: "input_image", image_url: file.url };
  return { type: "input_file", filename: file.name, file_data: file.url };
}

/** @param {string} name @param {string} role */
function scope2(name, role) {
  return { id: newId(), name, role, metadata: {}, created_at: `${now()}+00:00` };
}
