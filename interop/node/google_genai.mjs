// Google's SDK for Node: whole and streamed, chats, tools, counts, models, errors.
import { ApiError, GoogleGenAI, Type } from "@google/genai";
import { KEY, QUESTION, holds, rejects, run, weather } from "./checks.mjs";

const ai = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: process.env.PARLEY_URL } });
const hello = { model: "demo", contents: "Hello there" };
const parameters = { type: Type.OBJECT, properties: { city: { type: Type.STRING } }, required: ["city"] };
const tools = [{ functionDeclarations: [{ name: "get_weather", description: "The weather of a city", parameters }] }];

async function read(stream) {
  const chunks = [];
  for await (const chunk of await stream) chunks.push(chunk);
  return chunks;
}
const texts = (chunks) => chunks.map((chunk) => chunk.text ?? "").join("");
const parts = (chunks) => chunks.flatMap((chunk) => chunk.candidates[0].content.parts);

await run("@google/genai", {
  "a whole reply has text and usage": async () => {
    const reply = await ai.models.generateContent(hello);
    holds(reply.text && reply.candidates[0].finishReason === "STOP" && reply.modelVersion === "demo", reply);
    holds(reply.usageMetadata.totalTokenCount > 0, reply);
  },
  "a stream: the deltas make the whole": async () => {
    const chunks = await read(ai.models.generateContentStream(hello));
    holds(texts(chunks) === (await ai.models.generateContent(hello)).text, chunks);
  },
  "tools: two calls, their results with the signature, an answer": async () => {
    const asked = { model: "demo", contents: QUESTION, config: { tools } };
    const found = parts(await read(ai.models.generateContentStream(asked)));
    const calls = found.filter((part) => part.functionCall).map((part) => part.functionCall);
    holds(calls.length === 2 && calls[0].args.city === "Paris" && found.some((part) => part.thoughtSignature), found);
    const results = calls.map(({ name, args }) => ({
      functionResponse: { name, response: { result: weather(args.city) } },
    }));
    const history = [
      { role: "user", parts: [{ text: QUESTION }] },
      { role: "model", parts: found },
      { role: "user", parts: results },
    ];
    const answer = await ai.models.generateContent({ ...asked, contents: history });
    holds(answer.text.includes("21 degrees in Paris") && answer.text.includes("Tokyo"), answer);
  },
  "a chat keeps what was streamed": async () => {
    for (const includeThoughts of [false, true]) {
      const chat = ai.chats.create({ model: "demo", config: { thinkingConfig: { includeThoughts } } });
      const first = texts(await read(chat.sendMessageStream({ message: "Hello there" })));
      await chat.sendMessage({ message: "Go on" });
      const kept = chat.getHistory(true).flatMap((content) => content.parts);
      const words = kept.filter((part) => !part.thought).map((part) => part.text ?? "");
      holds(first && words.join("").includes(first), kept);
    }
  },
  "tokens are counted, and the models listed": async () => {
    holds((await ai.models.countTokens(hello)).totalTokens > 0);
    const names = [];
    for await (const model of await ai.models.list()) names.push(model.name);
    holds(names.includes("models/demo"), names);
  },
  "errors have their status": async () => {
    const missing = await rejects(ApiError, () => ai.models.generateContent({ ...hello, model: "nobody" }));
    holds(missing.status === 404, missing);
  },
  "an interrupted stream is an error": async () => {
    for (const model of ["broken", "cut"]) {
      await rejects(ApiError, () => read(ai.models.generateContentStream({ ...hello, model })));
    }
  },
});
