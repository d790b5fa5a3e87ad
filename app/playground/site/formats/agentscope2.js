/** @file AgentScope 2.x: its frames, the messages that the page writes, and an example. */

import { newId, now, source } from "./parts.js";
import { ANSWER, ARGUMENTS, AT_2, BEFORE, NEXT, QUESTION, RESULT, SYSTEM, THOUGHT } from "./sample.js";

/** @type {Record<string, "reasoning" | "content">} */
const KINDS = { THINKING_BLOCK: "reasoning", TEXT_BLOCK: "content" };

/** @type {import("./index.js").Format} */
export const AGENTSCOPE2 = {
  title: "AgentScope 2.x",
  readFrame,
  replyMessages: (body) => [body.msg],
  writeUser: (text, files) => ({
    ...scope2("user", "user"),
    content: [
      { type: "text", text },
      ...files.map((file) => ({ type: "data", source: source(file), name: file.name })),
    ],
  }),
  writeSystem: (text) => ({ ...scope2("system", "system"), content: [{ type: "text", text }] }),
  writeResults: (results) => [
    {
      ...scope2("assistant", "assistant"),
      content: results.map(({ id, name, text }) => ({
        type: "tool_result",
        id,
        name,
        output: text,
        state: "success",
      })),
    },
  ],
  example: [
    { id: "m1", name: "system", role: "system", content: [{ type: "text", text: SYSTEM }], metadata: {}, created_at: AT_2 },
    { id: "m2", name: "user", role: "user", content: [{ type: "text", text: QUESTION }], metadata: {}, created_at: AT_2 },
    {
      id: "m3",
      name: "assistant",
      role: "assistant",
      content: [
        { type: "thinking", thinking: THOUGHT },
        { type: "text", text: BEFORE },
        { type: "tool_call", id: "call_1", name: "get_weather", input: ARGUMENTS, state: "finished" },
        { type: "tool_result", id: "call_1", name: "get_weather", output: RESULT, state: "success" },
        { type: "text", text: ANSWER },
      ],
      metadata: {},
      created_at: AT_2,
    },
    { id: "m4", name: "user", role: "user", content: [{ type: "text", text: NEXT }], metadata: {}, created_at: AT_2 },
  ],
};

/**
 * AgentScope 2.x: events of blocks.
 * @type {import("./index.js").FrameReader}
 */
function readFrame(reply, event) {
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
  } else if (event.type === "TOOL_RESULT_START") {
    reply.part(`result ${key}`, "result", { name: event.tool_call_name, id: key });
  } else if (event.type === "TOOL_RESULT_TEXT_DELTA") {
    reply.append(`result ${key}`, "result", event.delta);
  } else if (event.type === "TOOL_RESULT_END") {
    Object.assign(reply.part(`result ${key}`, "result"), { done: true, error: event.state === "error" });
  } else if (event.type === "REQUIRE_USER_CONFIRM") {
    for (const { id } of event.tool_calls) Object.assign(reply.findCall(id) ?? {}, { approval: true });
    reply.finish("tool_approval");
  } else if (event.type === "MODEL_CALL_END") {
    const { input_tokens = 0, output_tokens = 0 } = reply.usage ?? {};
    reply.usage = { input_tokens: input_tokens + event.input_tokens, output_tokens: output_tokens + event.output_tokens };
  } else if (event.type === "REPLY_END") {
    reply.warnings = event.metadata?.warnings ?? [];
    if (event.error) reply.fail(typeof event.error === "string" ? { message: event.error } : event.error);
    else reply.finish(event.metadata?.finish_reason ?? (reply.calls.length ? "tool_calls" : event.finished_reason));
  }
}

/** @param {string} name @param {string} role */
function scope2(name, role) {
  return { id: newId(), name, role, metadata: {}, created_at: `${now()}+00:00` };
}
