// Vercel's AI SDK with its OpenAI provider and the Responses API.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText } from "ai";
import { answers, callsTools, givesObject, hasAnswer, makeAgent, streams, streamsTools } from "./ai_checks.mjs";
import { KEY, V1, holds, run } from "./checks.mjs";

const provider = createOpenAI({ baseURL: V1, apiKey: KEY });
const model = provider.responses("demo");
const agent = makeAgent(model);
const unstored = { ...agent, providerOptions: { openai: { store: false } } };
const summarized = { providerOptions: { openai: { forceReasoning: true, reasoningSummary: "auto" } } };

async function isStored() {
  const body = JSON.stringify({ model: "demo", input: "Hello there" });
  const answer = await fetch(`${V1}/responses`, { method: "POST", body, headers: { "content-type": "application/json" } });
  return (await answer.json()).store;
}

await run("ai", {
  "a whole reply has text and usage, and reasoning where a summary is asked for": answers(model, summarized),
  "a stream: the deltas make the text": streams(model),
  "tools without the store: two calls, their results, an answer": callsTools(unstored),
  "tools without the store, streamed: two calls, their results, an answer": streamsTools(unstored),
  "tools by references to stored items, or an error of a gateway that stores nothing": async () => {
    if (!(await isStored())) {
      let refused = "";
      await generateText({ ...agent, maxRetries: 0 }).catch((error) => (refused = String(error.message)));
      holds(refused.includes("there is no stored item"), refused);
      return;
    }
    const { text } = await generateText(agent);
    hasAnswer(text);
  },
  "an object that follows a schema": givesObject(model),
});
