/** @file What the messages of several formats have. */

/** @param {import("./index.js").Attachment} file */
export const isImage = (file) => file.mediaType.startsWith("image/");
/** @param {import("./index.js").Attachment} file */
export const base64 = (file) => file.url.slice(file.url.indexOf(",") + 1);
/** @param {import("./index.js").Attachment} file */
export const source = (file) => ({ type: "base64", media_type: file.mediaType, data: base64(file) });
export const newId = () => crypto.getRandomValues(new Uint32Array(2)).join("");
export const now = () => new Date().toISOString().slice(0, 19);

/** @param {any} content of the result of a call @returns {string} its texts; other items as JSON */
export function resultText(content) {
  const items = Array.isArray(content) ? content.map((item) => item?.text ?? item) : [content];
  return items.map((one) => (typeof one === "string" ? one : JSON.stringify(one) ?? "")).join("\n");
}

/** @param {any} error of an `mcp_call` @returns {string} */
export function mcpErrorText(error) {
  return error?.content ? resultText(error.content) : String(error?.message ?? "");
}

/** @param {any} message of AutoGen or AgentScope @returns {string[]} the ids of its calls that wait for approval */
export function readWaiting(message) {
  const ids = message.metadata?.approval ?? [];
  return typeof ids === "string" ? JSON.parse(ids) : ids;
}
