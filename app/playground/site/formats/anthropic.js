/** @file Anthropic Messages: its frames, the messages that the page writes, and an example. */

import { isImage, resultText, source } from "./parts.js";
import { ANSWER, ARGUMENTS, BEFORE, NEXT, QUESTION, RESULT, SYSTEM } from "./sample.js";

/** @type {import("./index.js").Format} */
export const ANTHROPIC = {
  title: "Anthropic Messages",
  readFrame,
  replyMessages: (body) => [{ role: body.role, content: body.content }],
  writeUser: (text, files) => ({
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
  writeSystem: (text) => ({ role: "system", content: text }),
  writeResults: (results) => [
    {
      role: "user",
      content: results.map(({ id, text }) => ({ type: "tool_result", tool_use_id: id, content: text })),
    },
  ],
  example: [
    { role: "system", content: SYSTEM },
    { role: "user", content: QUESTION },
    {
      role: "assistant",
      content: [
        { type: "text", text: BEFORE },
        { type: "tool_use", id: "call_1", name: "get_weather", input: JSON.parse(ARGUMENTS) },
      ],
    },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content: RESULT }] },
    { role: "assistant", content: ANSWER },
    { role: "user", content: NEXT },
  ],
};

/** @type {import("./index.js").FrameReader} */
function readFrame(reply, event) {
  const key = String(event.index);
  switch (event.type) {
    case "content_block_start": {
      const block = event.content_block;
      if (block.type === "tool_use") reply.part(key, "call", { name: block.name, id: block.id });
      else if (block.type === "mcp_tool_use") {
        reply.part(key, "call", { name: `${block.server_name}-${block.name}`, id: block.id, server: block.server_name });
      } else if (block.type === "mcp_tool_result") {
        reply.addResult(block.tool_use_id, resultText(block.content), block.is_error);
      } else if (block.type === "thinking") reply.part(key, "reasoning");
      else if (block.type === "text") reply.part(key, "content");
      else reply.part(key, "other").text = JSON.stringify(block, null, 2);
      break;
    }
    case "content_block_delta":
      reply.append(key, "content", event.delta.thinking ?? event.delta.text ?? event.delta.partial_json);
      break;
    case "content_block_stop":
      reply.finishPart(key);
      break;
    case "message_delta":
      reply.finishReason = event.delta.stop_reason;
      reply.usage = event.usage;
      reply.warnings = event.parley?.warnings ?? [];
      break;
    case "message_stop":
      reply.finish(null);
  }
}
