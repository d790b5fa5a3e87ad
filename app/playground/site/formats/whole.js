/** @file The messages of a whole reply: each format has its own body. */

/**
 * Return the messages that a conversation goes on with after this reply.
 * @param {string} format
 * @param {any} body of `GET /v1/chat/{response_id}`
 * @returns {any[]}
 */
export function replyMessages(format, body) {
  switch (format) {
    case "openai":
      return [withoutNulls(body.choices[0].message)];
    case "responses":
      return body.output;
    case "anthropic":
      return [{ role: body.role, content: body.content }];
    case "agentscope":
    case "agentscope2":
      return [body.msg];
    default:
      return body.messages;
  }
}

/**
 * Write what was read of a reply that was stopped, as Qwen-Agent's messages: its text, but none of its calls.
 * @param {import("../reply.js").Reply} reply
 */
export function partialMessages(reply) {
  const texts = reply.parts.filter((part) => part.text && (part.kind === "reasoning" || part.kind === "content"));
  if (!texts.some((part) => part.kind === "content")) return [];
  return texts.map((part) =>
    part.kind === "reasoning"
      ? { role: "assistant", content: "", reasoning_content: part.text }
      : { role: "assistant", content: part.text },
  );
}

/** @param {Record<string, any>} message */
function withoutNulls(message) {
  return Object.fromEntries(Object.entries(message).filter(([key, value]) => value !== null || key === "content"));
}
