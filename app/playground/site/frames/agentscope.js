/**
 * AgentScope 1.x: each frame holds the whole message so far.
 * @type {import("./index.js").FrameReader}
 */
export function readAgentScope(reply, frame) {
  for (const [index, block] of (frame.msg?.content ?? []).entries()) {
    const key = String(index);
    if (block.type === "tool_use") {
      const part = reply.part(key, "call", { name: block.name, id: block.id });
      reply.grow(part, block.raw_input ?? JSON.stringify(block.input));
    } else if (block.type === "thinking" || block.type === "text") {
      const part = reply.part(key, block.type === "thinking" ? "reasoning" : "content");
      reply.grow(part, block.thinking ?? block.text);
    } else {
      reply.grow(reply.part(key, "other"), JSON.stringify(block, null, 2));
    }
  }
  if (!frame.last) return;
  const { finish_reason, usage, warnings } = frame.msg.metadata ?? {};
  reply.warnings = warnings ?? [];
  reply.finish(finish_reason, usage?.metadata ?? usage);
}

/** @type {Record<string, "reasoning" | "content">} */
const KINDS = { THINKING_BLOCK: "reasoning", TEXT_BLOCK: "content" };

/**
 * AgentScope 2.x: events of blocks.
 * @type {import("./index.js").FrameReader}
 */
export function readAgentScope2(reply, event) {
  const [, thing, step] = /^(\w+?)_(START|DELTA|END)$/.exec(event.type) ?? [];
  const key = event.block_id ?? event.tool_call_id;
  if (thing in KINDS) {
    const part = reply.part(key, KINDS[thing]);
    if (step === "DELTA") reply.append(key, KINDS[thing], event.delta);
    part.done = step === "END";
  } else if (thing === "TOOL_CALL") {
    const part = reply.part(key, "call", { name: event.tool_call_name, id: event.tool_call_id });
    if (step === "DELTA") reply.append(key, "call", event.delta);
    part.done = step === "END";
  } else if (event.type === "MODEL_CALL_END") {
    reply.usage = { input_tokens: event.input_tokens, output_tokens: event.output_tokens };
  } else if (event.type === "REPLY_END") {
    reply.warnings = event.metadata?.warnings ?? [];
    if (event.error) reply.fail(typeof event.error === "string" ? { message: event.error } : event.error);
    else reply.finish(reply.calls.length ? "tool_calls" : event.finished_reason);
  }
}
