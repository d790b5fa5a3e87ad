/** @file OpenAI Responses: its frames, the messages that the page writes, and an example. */

import { isImage, mcpErrorText } from "./parts.js";
import { ANSWER, ARGUMENTS, BEFORE, NEXT, QUESTION, RESULT, SYSTEM, THOUGHT } from "./sample.js";

/** @type {import("./index.js").Format} */
export const RESPONSES = {
  title: "OpenAI Responses",
  readFrame,
  replyMessages: (body) => body.output,
  writeUser: (text, files) => ({
    type: "message",
    role: "user",
    content: files.length ? [{ type: "input_text", text }, ...files.map(responsesPart)] : text,
  }),
  writeSystem: (text) => ({ type: "message", role: "system", content: text }),
  writeResults: (results) =>
    results.map(({ id, text }) => ({ type: "function_call_output", call_id: id, output: text })),
  example: [
    { type: "message", role: "system", content: SYSTEM },
    { type: "message", role: "user", content: QUESTION },
    { type: "reasoning", id: "rs_1", summary: [], content: [{ type: "reasoning_text", text: THOUGHT }] },
    { type: "message", id: "msg_1", role: "assistant", status: "completed", content: [{ type: "output_text", text: BEFORE, annotations: [] }] },
    { type: "function_call", call_id: "call_1", name: "get_weather", arguments: ARGUMENTS },
    { type: "function_call_output", call_id: "call_1", output: RESULT },
    { type: "message", id: "msg_2", role: "assistant", status: "completed", content: [{ type: "output_text", text: ANSWER, annotations: [] }] },
    { type: "message", role: "user", content: NEXT },
  ],
};

/** @type {import("./index.js").FrameReader} */
function readFrame(reply, event) {
  const key = String(event.output_index);
  switch (event.type) {
    case "response.output_item.added":
      begin(reply, key, event.item);
      break;
    case "response.output_item.done":
      begin(reply, key, event.item).done = true;
      if (event.item.type === "mcp_call") endCall(reply, event.item);
      break;
    case "response.completed":
    case "response.incomplete":
      reply.warnings = event.response.parley?.warnings ?? [];
      reply.finish(event.response.incomplete_details?.reason ?? event.response.status, event.response.usage);
      break;
    case "response.failed":
      reply.fail(event.response.error ?? { message: "response.failed" });
      break;
    default:
      if (event.type?.endsWith(".delta") && typeof event.delta === "string") {
        reply.append(key, "content", event.delta);
      }
  }
}

/** @param {import("../reply.js").Reply} reply @param {any} item a call that the gateway has run */
function endCall(reply, { id, output, error }) {
  reply.addResult(id.replace(/^mcp_/, ""), output ?? mcpErrorText(error), error);
}

/**
 * @param {import("../reply.js").Reply} reply
 * @param {string} key
 * @param {any} item
 */
function begin(reply, key, item) {
  switch (item.type) {
    case "reasoning":
      return reply.part(key, "reasoning");
    case "message":
      return reply.part(key, "content");
    case "function_call":
    case "custom_tool_call":
      return reply.part(key, "call", { name: item.name, id: item.call_id });
    case "mcp_call":
    case "mcp_approval_request": {
      const { server_label: server, name } = item;
      const id = item.id.replace(/^mcpr?_/, "");
      const part = reply.part(key, "call", { name: `${server}-${name}`, id, server });
      reply.grow(part, item.arguments);
      part.approval = item.type === "mcp_approval_request";
      return part;
    }
    default: {
      const part = reply.part(key, "other");
      part.text = JSON.stringify(item, null, 2);
      return part;
    }
  }
}

/** @param {import("./index.js").Attachment} file */
function responsesPart(file) {
  if (isImage(file)) return { type: "input_image", image_url: file.url };
  return { type: "input_file", filename: file.name, file_data: file.url };
}
