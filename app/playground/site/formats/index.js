/** @file The formats of `POST /v1/chat`: each is a module, and a row in `FORMATS`. */

import { AGENTSCOPE } from "./agentscope.js";
import { AGENTSCOPE2 } from "./agentscope2.js";
import { ANTHROPIC } from "./anthropic.js";
import { AUTOGEN } from "./autogen.js";
import { GEMINI } from "./gemini.js";
import { OPENAI } from "./openai.js";
import { QWEN } from "./qwen.js";
import { RESPONSES } from "./responses.js";
import { isImage } from "./parts.js";

/**
 * @typedef {object} Attachment
 * @property {string} name
 * @property {string} mediaType `image/…`, or `application/pdf`
 * @property {string} url a data URL
 */

/**
 * @typedef {object} Result
 * @property {string} id the id of the call
 * @property {string} name the function
 * @property {string} text what it returned
 */

/** @typedef {(reply: import("../reply.js").Reply, data: any) => void} FrameReader adds what a frame says to a reply */

/**
 * @typedef {object} Format
 * @property {string} title
 * @property {FrameReader} readFrame
 * @property {(body: any) => any[]} replyMessages the messages of a whole reply, with which a conversation goes on
 * @property {(text: string, files: Attachment[]) => any} writeUser
 * @property {boolean} [takesOnlyImages] it has no field for other files
 * @property {(text: string) => any} writeSystem
 * @property {(results: Result[]) => any[]} writeResults
 * @property {any[]} example a conversation in which a function was called
 */

/** @type {Record<string, Format>} */
export const FORMATS = {
  qwen: QWEN,
  openai: OPENAI,
  responses: RESPONSES,
  anthropic: ANTHROPIC,
  gemini: GEMINI,
  autogen: AUTOGEN,
  agentscope: AGENTSCOPE,
  agentscope2: AGENTSCOPE2,
};

/**
 * Add a frame to the reply.
 * @param {string} format
 * @param {import("../reply.js").Reply} reply
 * @param {string} data the data of the frame
 */
export function readFrame(format, reply, data) {
  if (data === "[DONE]") {
    reply.finish(null);
    return;
  }
  const value = JSON.parse(data);
  if (value.error && !("finished_reason" in value)) reply.fail(value.error);
  else FORMATS[format].readFrame(reply, value);
}

/**
 * Return a message of the user. Where the format has no field for a file, it is written in OpenAI's format and must be
 * converted: then `format` of the result is "openai".
 * @param {string} format
 * @param {string} text
 * @param {Attachment[]} files
 */
export function writeUser(format, text, files) {
  const used = FORMATS[format].takesOnlyImages && !files.every(isImage) ? "openai" : format;
  return { format: used, message: FORMATS[used].writeUser(text, files) };
}

/**
 * Write what was read of a reply as Qwen-Agent's messages. Of one that was stopped, calls without a result are left out.
 * @param {import("../reply.js").Reply} reply
 * @param {boolean} finished
 */
export function readMessages(reply, finished) {
  const answered = reply.parts.filter((part) => part.kind === "result" && part.done).map((part) => part.id);
  const parts = reply.parts.filter((part) => {
    if (part.kind === "call") return finished || answered.includes(part.id);
    if (part.kind === "result") return part.done;
    return part.text && (part.kind === "reasoning" || part.kind === "content");
  });
  return parts.every((part) => part.kind === "reasoning") ? [] : parts.map(writePart);
}

/** @param {import("../reply.js").Part} part @returns {Record<string, any>} */
function writePart({ kind, text, name, id, approval, error }) {
  switch (kind) {
    case "reasoning":
      return { role: "assistant", content: "", reasoning_content: text };
    case "call": {
      const extra = { function_id: id, ...(approval && { approval: "required" }) };
      return { role: "assistant", content: "", function_call: { name, arguments: text }, extra };
    }
    case "result":
      return { role: "function", name, content: text, extra: { function_id: id, ...(error && { is_error: true }) } };
    default:
      return { role: "assistant", content: text };
  }
}
