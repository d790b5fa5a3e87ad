/** @file Qwen-Agent: its frames, the messages that the page writes, and an example. */

import { isImage, resultText } from "./parts.js";
import { ANSWER, ARGUMENTS, BEFORE, NEXT, QUESTION, RESULT, SYSTEM, THOUGHT } from "./sample.js";

/** @type {import("./index.js").Format} */
export const QWEN = {
  title: "Qwen-Agent",
  readFrame,
  replyMessages: (body) => body.messages,
  writeUser: (text, files) => ({
    role: "user",
    content: files.length
      ? [{ text }, ...files.map((file) => ({ [isImage(file) ? "image" : "file"]: file.url }))]
      : text,
    // Qwen-Agent has no key for the name of a file: Parley keeps it in `extra`.
    ...(!files.every(isImage) && { extra: { parley: { media: nameFiles(files) } } }),
  }),
  writeSystem: (text) => ({ role: "system", content: text }),
  writeResults: (results) =>
    results.map(({ id, name, text }) => ({ role: "function", name, content: text, extra: { function_id: id } })),
  example: [
    { role: "system", content: SYSTEM },
    { role: "user", content: QUESTION },
    { role: "assistant", content: "", reasoning_content: THOUGHT },
    { role: "assistant", content: BEFORE },
    { role: "assistant", content: "", function_call: { name: "get_weather", arguments: ARGUMENTS }, extra: { function_id: "call_1" } },
    { role: "function", name: "get_weather", content: RESULT, extra: { function_id: "call_1" } },
    { role: "assistant", content: ANSWER },
    { role: "user", content: NEXT },
  ],
};

/** @type {import("./index.js").FrameReader} */
function readFrame(reply, frame) {
  const key = String(frame.index);
  switch (frame.type) {
    case "message.started": {
      const call = frame.message.function_call;
      const id = frame.message.extra?.function_id;
      if (frame.kind === "function_call") reply.part(key, "call", { name: call?.name, id });
      else if (frame.kind === "function_result") reply.part(key, "result", { name: frame.message.name, id });
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
 * Images and audio come only with the whole message, and whether a result is an error.
 * @param {import("../reply.js").Reply} reply
 * @param {import("../reply.js").Part} part
 * @param {any} message
 */
function complete(reply, part, message) {
  part.done = true;
  part.approval = message.extra?.approval === "required";
  if (part.kind === "result") {
    part.error = Boolean(message.extra?.is_error);
    reply.grow(part, resultText(message.content));
    return;
  }
  if (!Array.isArray(message.content)) return;
  for (const item of message.content) {
    const url = item.image ?? item.audio ?? item.video ?? item.file;
    if (url) Object.assign(part, { kind: "media", text: String(url) });
    else if (item.text && !part.text) reply.grow(part, item.text);
  }
}

/** @param {import("./index.js").Attachment[]} files behind a text */
const nameFiles = (files) => files.map((file, index) => ({ at: index + 1, name: file.name })).filter(({ at }) => !isImage(files[at - 1]));
