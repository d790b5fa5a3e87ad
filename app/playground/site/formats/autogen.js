/** @file AutoGen: its frames, the messages that the page writes, and an example. */

import { base64, readWaiting } from "./parts.js";
import { ANSWER, ARGUMENTS, NEXT, QUESTION, RESULT, SYSTEM, THOUGHT } from "./sample.js";

/** @type {import("./index.js").Format} */
export const AUTOGEN = {
  title: "AutoGen",
  readFrame,
  replyMessages: (body) => body.messages,
  writeUser: (text, files) =>
    files.length
      ? { type: "MultiModalMessage", source: "user", content: [text, ...files.map((file) => ({ data: base64(file) }))] }
      : { type: "TextMessage", source: "user", content: text },
  takesOnlyImages: true,
  writeSystem: (text) => ({ type: "SystemMessage", content: text }),
  writeResults: (results) => [
    {
      type: "ToolCallExecutionEvent",
      source: "assistant",
      content: results.map(({ id, name, text }) => ({ call_id: id, name, content: text, is_error: false })),
    },
  ],
  example: [
    { type: "SystemMessage", content: SYSTEM },
    { type: "TextMessage", source: "user", content: QUESTION },
    { type: "ThoughtEvent", source: "assistant", content: THOUGHT, metadata: { kind: "reasoning" } },
    { type: "ToolCallRequestEvent", source: "assistant", content: [{ id: "call_1", name: "get_weather", arguments: ARGUMENTS }] },
    {
      type: "ToolCallExecutionEvent",
      source: "assistant",
      content: [{ call_id: "call_1", name: "get_weather", content: RESULT, is_error: false }],
    },
    { type: "TextMessage", source: "assistant", content: ANSWER },
    { type: "TextMessage", source: "user", content: NEXT },
  ],
};

/** @type {import("./index.js").FrameReader} */
function readFrame(reply, event) {
  switch (event.type) {
    case "ModelClientStreamingChunkEvent": {
      const kind = event.metadata?.kind === "reasoning" ? "reasoning" : "content";
      reply.append(event.full_message_id ?? kind, kind, event.content);
      break;
    }
    case "ThoughtEvent":
      whole(reply, event, event.metadata?.kind === "reasoning" ? "reasoning" : "content");
      break;
    case "TextMessage":
      whole(reply, event, "content");
      break;
    case "ToolCallRequestEvent":
      for (const call of event.content) {
        const part = reply.part(`call ${call.id}`, "call", { name: call.name, id: call.id });
        reply.grow(part, call.arguments);
        part.done = true;
        part.approval = readWaiting(event).includes(call.id);
      }
      break;
    case "ToolCallExecutionEvent":
      for (const { call_id, content, is_error } of event.content) reply.addResult(call_id, content, is_error);
      break;
    case "TaskResult": {
      const last = event.messages?.findLast((/** @type {any} */ one) => one.models_usage);
      reply.warnings = event.warnings ?? [];
      reply.finish(event.stop_reason, readUsage(last));
      break;
    }
  }
}

/**
 * @param {import("../reply.js").Reply} reply
 * @param {any} event
 * @param {"reasoning" | "content"} kind
 */
function whole(reply, event, kind) {
  const part = reply.part(event.id, kind);
  if (typeof event.content === "string") reply.grow(part, event.content);
  part.done = true;
}

/** @param {any} message */
function readUsage(message) {
  const text = message?.metadata?.usage;
  return typeof text === "string" ? JSON.parse(text) : message?.models_usage;
}
