/** @type {import("./index.js").FrameReader} */
export function readOpenAI(reply, chunk) {
  if (chunk.usage) reply.usage = chunk.usage;
  if (chunk.warnings) reply.warnings = chunk.warnings;
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
 * @param {import("../reply.js").Reply} reply
 * @param {"reasoning" | "content"} kind
 */
function textKey(reply, kind) {
  const last = reply.parts.length - 1;
  const same = reply.parts[last]?.kind === kind;
  return `text ${same ? last : last + 1}`;
}
