/** @type {import("./index.js").FrameReader} */
export function readAnthropic(reply, event) {
  const key = String(event.index);
  switch (event.type) {
    case "content_block_start": {
      const block = event.content_block;
      if (block.type === "tool_use") reply.part(key, "call", { name: block.name, id: block.id });
      else if (block.type === "thinking") reply.part(key, "reasoning");
      else if (block.type === "text") reply.part(key, "content");
      else reply.part(key, "other").text = JSON.stringify(block, null, 2);
      break;
    }
    case "content_block_delta":
      reply.append(key, "content", event.delta.thinking ?? event.delta.text ?? event.delta.partial_json);
      break;
    case "content_block_stop":
      reply.part(key, "content").done = true;
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
