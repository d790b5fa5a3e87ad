/** @file AgentScope 1.x: its frames, the messages that the page writes, and an example. */

import { now, readWaiting, resultText, source } from "./parts.js";
import { ANSWER, ARGUMENTS, AT, BEFORE, NEXT, QUESTION, RESULT, SYSTEM, THOUGHT } from "./sample.js";

/** @type {import("./index.js").Format} */
export const AGENTSCOPE = {
  title: "AgentScope 1.x",
  readFrame,
  replyMessages: (body) => body.msgs ?? [body.msg],
  writeUser: (text, files) => ({
    name: "user",
    role: "user",
    content: files.length
      ? [{ type: "text", text }, ...files.map((file) => ({ type: "image", source: source(file) }))]
      : text,
    metadata: {},
    timestamp: `${now().replace("T", " ")}.000`,
  }),
  takesOnlyImages: true,
  writeSystem: (text) => ({
    name: "system",
    role: "system",
    content: text,
    metadata: {},
    timestamp: `${now().replace("T", " ")}.000`,
  }),
  writeResults: (results) =>
    results.map(({ id, name, text }) => ({
      name: "system",
      role: "system",
      content: [{ type: "tool_result", id, name, output: text }],
      metadata: {},
      timestamp: `${now().replace("T", " ")}.000`,
    })),
  example: [
    { id: "m1", name: "system", role: "system", content: SYSTEM, metadata: {}, timestamp: AT },
    { id: "m2", name: "user", role: "user", content: QUESTION, metadata: {}, timestamp: AT },
    {
      id: "m3",
      name: "assistant",
      role: "assistant",
      content: [
        { type: "thinking", thinking: THOUGHT },
        { type: "text", text: BEFORE },
        { type: "tool_use", id: "call_1", name: "get_weather", input: JSON.parse(ARGUMENTS) },
      ],
      metadata: {},
      timestamp: AT,
    },
    {
      id: "m4",
      name: "system",
      role: "system",
      content: [{ type: "tool_result", id: "call_1", name: "get_weather", output: RESULT }],
      metadata: {},
      timestamp: AT,
    },
    { id: "m5", name: "assistant", role: "assistant", content: [{ type: "text", text: ANSWER }], metadata: {}, timestamp: AT },
    { id: "m6", name: "user", role: "user", content: NEXT, metadata: {}, timestamp: AT },
  ],
};

/**
 * AgentScope 1.x: each frame holds the whole message so far.
 * @type {import("./index.js").FrameReader}
 */
function readFrame(reply, frame) {
  for (const [index, block] of (frame.msg?.content ?? []).entries()) {
    const key = `${frame.msg.id} ${index}`;
    if (block.type === "tool_use") {
      const part = reply.part(key, "call", { name: block.name, id: block.id });
      reply.grow(part, block.raw_input ?? JSON.stringify(block.input));
      part.approval = readWaiting(frame.msg).includes(block.id);
    } else if (block.type === "tool_result") {
      reply.addResult(block.id, resultText(block.output), frame.msg.metadata?.is_error);
    } else if (block.type === "thinking" || block.type === "text") {
      const part = reply.part(key, block.type === "thinking" ? "reasoning" : "content");
      reply.grow(part, block.thinking ?? block.text);
    } else {
      reply.grow(reply.part(key, "other"), JSON.stringify(block, null, 2));
    }
  }
  const { finish_reason, usage, warnings } = frame.msg?.metadata ?? {};
  // Each turn and each result of a tool that the gateway runs is a message with a last frame of its own.
  if (!frame.last || finish_reason === undefined) return;
  reply.warnings = warnings ?? [];
  reply.finish(finish_reason, usage?.metadata ?? usage);
}
