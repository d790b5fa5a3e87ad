/** @file Google's Gemini: its chunks, the messages that the page writes, and an example. */

import { ANSWER, ARGUMENTS, BEFORE, NEXT, QUESTION, RESULT, SYSTEM } from "./sample.js";

/** @type {import("./index.js").Format} */
export const GEMINI = {
  title: "Google Gemini",
  readFrame,
  replyMessages: (body) => body.candidates.map((/** @type {any} */ candidate) => candidate.content),
  writeUser: (text, files) => ({ role: "user", parts: [...files.map(writeFile), { text }] }),
  writeSystem: (text) => ({ role: "system", parts: [{ text }] }),
  writeResults: (results) => [
    {
      role: "user",
      parts: results.map(({ id, name, text }) => ({ functionResponse: { id, name, response: { result: text } } })),
    },
  ],
  example: [
    { role: "system", parts: [{ text: SYSTEM }] },
    { role: "user", parts: [{ text: QUESTION }] },
    {
      role: "model",
      parts: [
        { text: BEFORE },
        { functionCall: { id: "call_1", name: "get_weather", args: JSON.parse(ARGUMENTS) } },
      ],
    },
    {
      role: "user",
      parts: [{ functionResponse: { id: "call_1", name: "get_weather", response: { result: RESULT } } }],
    },
    { role: "model", parts: [{ text: ANSWER }] },
    { role: "user", parts: [{ text: NEXT }] },
  ],
};

/** @param {import("./index.js").Attachment} file */
function writeFile({ name, mediaType, url }) {
  return { inlineData: { mimeType: mediaType, data: url.slice(url.indexOf(",") + 1), displayName: name } };
}

/** @type {import("./index.js").FrameReader} */
function readFrame(reply, chunk) {
  const [candidate] = chunk.candidates;
  for (const part of candidate.content.parts ?? []) readPart(reply, part);
  if (!candidate.finishReason) return;
  reply.finishReason = candidate.finishReason;
  reply.usage = chunk.usageMetadata;
  reply.warnings = chunk.parley?.warnings ?? [];
  reply.finish(null);
}

/**
 * @param {import("../reply.js").Reply} reply
 * @param {any} part
 */
function readPart(reply, part) {
  if (part.functionCall) {
    const { id, name, args } = part.functionCall;
    reply.part(id, "call", { name, id });
    reply.append(id, "call", JSON.stringify(args));
    reply.finishPart(id);
  } else if (part.text) {
    const kind = part.thought ? "reasoning" : "content";
    const last = reply.parts.length - 1;
    const same = reply.parts[last]?.kind === kind;
    reply.append(`text ${same ? last : last + 1}`, kind, part.text);
  } else if (part.inlineData || part.fileData) {
    reply.part(`other ${reply.parts.length}`, "other").text = JSON.stringify(part, null, 2);
  }
}
