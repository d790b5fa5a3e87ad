/** @type {import("./index.js").FrameReader} */
export function readAutoGen(reply, event) {
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
      }
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
