// Vercel's AI SDK with its Anthropic provider: text, streams, tools, objects.
import { createAnthropic } from "@ai-sdk/anthropic";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { KEY, QUESTION, V1, holds, run, weather } from "./checks.mjs";

const provider = createAnthropic({ baseURL: V1, apiKey: KEY });
const model = provider("demo");
const get_weather = tool({
  description: "The weather of a city",
  inputSchema: z.object({ city: z.string() }),
  execute: ({ city }) => weather(city),
});
const agent = { model, prompt: QUESTION, tools: { get_weather }, stopWhen: stepCountIs(4) };

await run("ai", {
  "a whole reply has text, reasoning and usage": async () => {
    const { text, reasoningText, usage } = await generateText({ model, prompt: "Hello there" });
    holds(text && reasoningText && usage.outputTokens > 0, { text, reasoningText, usage });
  },
  "a stream: the deltas make the text": async () => {
    const result = streamText({ model, prompt: "Hello there" });
    let text = "";
    for await (const delta of result.textStream) text += delta;
    holds(text && text === (await result.text) && (await result.usage).outputTokens > 0, text);
  },
  "tools: two calls, their results, an answer": async () => {
    const { text, steps } = await generateText(agent);
    holds(steps[0].toolCalls.length === 2, steps);
    holds(text.includes("21 degrees in Paris") && text.includes("Tokyo"), text);
  },
  "tools, streamed: two calls, their results, an answer": async () => {
    const result = streamText(agent);
    const text = await result.text;
    holds((await result.steps)[0].toolCalls.length === 2, text);
    holds(text.includes("21 degrees in Paris") && text.includes("Tokyo"), text);
  },
  "an object that follows a schema": async () => {
    const schema = z.object({ city: z.string(), degrees: z.number() });
    const { object } = await generateObject({ model, schema, prompt: "What is the weather in Paris?" });
    holds(object.city === "Paris", object);
  },
});
