/** @file What the messages of several formats have. */

/** @param {import("./index.js").Attachment} file */
export const isImage = (file) => file.mediaType.startsWith("image/");
/** @param {import("./index.js").Attachment} file */
export const base64 = (file) => file.url.slice(file.url.indexOf(",") + 1);
/** @param {import("./index.js").Attachment} file */
export const source = (file) => ({ type: "base64", media_type: file.mediaType, data: base64(file) });
export const newId = () => crypto.getRandomValues(new Uint32Array(2)).join("");
export const now = () => new Date().toISOString().slice(0, 19);
