/** @type {import("./index.js").FrameReader} */
export function readResponses(reply, event) {
  const key = String(event.output_index);
  switch (event.type) {
    case "response.output_item.added":
      begin(reply, key, event.item);
      break;
    case "response.output_item.done":
      begin(reply, key, event.item).done = true;
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
    default: {
      const part = reply.part(key, "other");
      part.text = JSON.stringify(item, null, 2);
      return part;
    }
  }
}
