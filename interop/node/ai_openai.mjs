// Vercel's AI SDK with its OpenAI provider and the Responses API: text, streams, tools, objects.
import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { KEY, QUESTION, V1, holds, run, weather } from "./checks.mjs";

const provider = createOpenAI({ baseURL: V1, apiKey: KEY });
const model = provider.responses("demo");
const get_weather = tool({
  description: "The weather of a city",
  inputSchema: z.object({ city: z.string() }),
  execute: ({ city }) => weather(city),
});
const agent = { model, prompt: QUESTION, tools: { get_weather }, stopWhen: stepCountIs(4) };
const unstored = { ...agent, providerOptions: { openai: { store: false } } };

async function isStored() {
  const body = JSON.stringify({ model: "demo", input: "Hello there" });
  const answer = await fetch(`${V1}/responses`, { method: "POST", body, headers: { "content-type": "application/json" } });
  return (await answer.json()).store;
}

await run("ai", {
  "a whole reply has text and usage, and reasoning where a summary is asked for": async () => {
    const providerOptions = { openai: { forceReasoning: true, reasoningSummary: "auto" } };
    const { text, reasoningText, usage } = await generateText({ model, prompt: "Hello there", providerOptions });
    holds(text && reasoningText && usage.outputTokens > 0, { text, reasoningText, usage });
  },
  "a stream: the deltas make the text": async () => {
    const result = streamText({ model, prompt: "Hello there" });
    let text = "";
    for await (const delta of result.textStream) text += delta;
    holds(text && text === (await result.text) && (await result.usage).outputTokens > 0, text);
  },
  "tools without the store: two calls, their results, an answer": async () => {
    const { text, steps } = await generateText(unstored);
    holds(steps[0].toolCalls.length === 2, steps);
    holds(text.includes("21 degrees in Paris") && text.includes("Tokyo"), text);
  },
  "tools without the store, streamed: two calls, their results, an answer": async () => {
    const result = streamText(unstored);
    const text = await result.text;
    holds((await result.steps)[0].toolCalls.length === 2, text);
    holds(text.includes("21 degrees in Paris") && text.includes("Tokyo"), text);
  },
  "tools by references to stored items, or an error of a gateway that stores nothing": async () => {
    if (!(await isStored())) {
      let refused = "";
      await generateText({ ...agent, maxRetries: 0 }).catch((error) => (refused = String(error.message)));
      holds(refused.includes("there is no stored item"), refused);
      return;
    }
    const { text } = await generateText(agent);
    holds(text.includes("21 degrees in Paris") && text.includes("Tokyo"), text);
  },
  "an object that follows a schema": async () => {
    const schema = z.object({ city: z.string(), degrees: z.number() });
    const { object } = await generateObject({ model, schema, prompt: "What is the weather in Paris?" });
    holds(object.city === "Paris", object);
  },
});
