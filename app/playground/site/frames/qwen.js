/** @type {import("./index.js").FrameReader} */
export function readQwen(reply, frame) {
  const key = String(frame.index);
  switch (frame.type) {
    case "message.started": {
      const call = frame.message.function_call;
      const id = frame.message.extra?.function_id;
      if (frame.kind === "function_call") reply.part(key, "call", { name: call?.name, id });
      else reply.part(key, frame.kind === "reasoning_content" ? "reasoning" : "content");
      break;
    }
    case "message.delta": {
      const { reasoning_content, content, function_call } = frame.delta;
      reply.append(key, "content", reasoning_content ?? content ?? function_call?.arguments);
      break;
    }
    case "message.completed":
      complete(reply, reply.part(key, "content"), frame.message);
      break;
    case "response.completed":
      reply.warnings = frame.warnings ?? [];
      reply.finish(frame.finish_reason, frame.usage);
      break;
    case "response.failed":
      reply.fail(frame.error);
  }
}

/**
 * Images and audio come only with the whole message.
 * @param {import("../reply.js").Reply} reply
 * @param {import("../reply.js").Part} part
 * @param {any} message
 */
function complete(reply, part, message) {
  part.done = true;
  if (!Array.isArray(message.content)) return;
  for (const item of message.content) {
    const url = item.image ?? item.audio ?? item.video ?? item.file;
    if (url) Object.assign(part, { kind: "media", text: String(url) });
    else if (item.text && !part.text) reply.grow(part, item.text);
  }
}
