/** @file OpenAI Chat Completions: its frames, the messages that the page writes, and an example. */

import { isImage, resultText } from "./parts.js";
import { ANSWER, ARGUMENTS, BEFORE, NEXT, QUESTION, RESULT, SYSTEM, THOUGHT } from "./sample.js";

/** @type {import("./index.js").Format} */
export const OPENAI = {
  title: "OpenAI Chat Completions",
  readFrame,
  replyMessages: (body) => [withoutNulls(body.choices[0].message)],
  writeUser: (text, files) => ({
    role: "user",
    content: files.length ? [{ type: "text", text }, ...files.map(openaiPart)] : text,
  }),
  writeSystem: (text) => ({ role: "system", content: text }),
  writeResults: (results) => results.map(({ id, text }) => ({ role: "tool", tool_call_id: id, content: text })),
  example: [
    { role: "system", content: SYSTEM },
    { role: "user", content: QUESTION },
    {
      role: "assistant",
      content: BEFORE,
      reasoning_content: THOUGHT,
      tool_calls: [{ id: "call_1", type: "function", function: { name: "get_weather", arguments: ARGUMENTS } }],
    },
    { role: "tool", tool_call_id: "call_1", content: RESULT },
    { role: "assistant", content: ANSWER },
    { role: "user", content: NEXT },
  ],
};

/** @type {import("./index.js").FrameReader} */
function readFrame(reply, chunk) {
  if (chunk.usage) reply.usage = chunk.usage;
  if (chunk.warnings) reply.warnings = chunk.warnings;
  if (chunk.server_message) addServerMessage(reply, chunk.server_message);
  const choice = chunk.choices?.[0];
  if (!choice) return;
  const { reasoning_content, content, refusal, tool_calls } = choice.delta ?? {};
  // A new kind of text begins a new part: a model may think again after it has written.
  if (reasoning_content) reply.append(textKey(reply, "reasoning"), "reasoning", reasoning_content);
  if (content ?? refusal) reply.append(textKey(reply, "content"), "content", content ?? refusal);
  for (const call of tool_calls ?? []) {
    const key = `call ${call.index}`;
    const part = reply.part(key, "call", { name: call.function?.name, id: call.id });
    part.name ??= call.function?.name;
    reply.append(key, "call", call.function?.arguments);
  }
  if (choice.finish_reason) reply.finishReason = choice.finish_reason;
}

/**
 * Add the calls of a turn that the gateway runs, or the result of one. The turn's text has come before.
 * @param {import("../reply.js").Reply} reply
 * @param {any} message
 */
function addServerMessage(reply, message) {
  for (const part of reply.parts) part.done = true;
  for (const { id, function: called, approval } of message.tool_calls ?? []) {
    const part = reply.part(`server ${id}`, "call", { name: called.name, id });
    reply.grow(part, called.arguments);
    Object.assign(part, { done: true, approval: approval === "required" });
  }
  if (message.role === "tool") reply.addResult(message.tool_call_id, resultText(message.content), message.is_error);
}

/**
 * @param {import("../reply.js").Reply} reply
 * @param {"reasoning" | "content"} kind
 */
function textKey(reply, kind) {
  const last = reply.parts.length - 1;
  const same = reply.parts[last]?.kind === kind;
  return `text ${same ? last : last + 1}`;
}

/** @param {import("./index.js").Attachment} file */
function openaiPart(file) {
  if (isImage(file)) return { type: "image_url", image_url: { url: file.url } };
  return { type: "file", file: { filename: file.name, file_data: file.url } };
}

/** @param {Record<string, any>} message */
function withoutNulls(message) {
  return Object.fromEntries(Object.entries(message).filter(([key, value]) => value !== null || key === "content"));
}
