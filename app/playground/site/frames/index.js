/** @file The reader of the frames of each format: it adds what a frame says to a `Reply`. */

import { readAgentScope, readAgentScope2 } from "./agentscope.js";
import { readAnthropic } from "./anthropic.js";
import { readAutoGen } from "./autogen.js";
import { readOpenAI } from "./openai.js";
import { readQwen } from "./qwen.js";
import { readResponses } from "./responses.js";

/** @typedef {(reply: import("../reply.js").Reply, data: any) => void} FrameReader */

/** @type {Record<string, FrameReader>} */
const READERS = {
  qwen: readQwen,
  openai: readOpenAI,
  responses: readResponses,
  anthropic: readAnthropic,
  autogen: readAutoGen,
  agentscope: readAgentScope,
  agentscope2: readAgentScope2,
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
  else READERS[format](reply, value);
}
