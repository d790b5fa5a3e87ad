// Checks of Vercel's AI SDK that hold for each of its providers: text, streams, tools, objects.
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { QUESTION, holds, weather } from "./checks.mjs";

const get_weather = tool({
  description: "The weather of a city",
  inputSchema: z.object({ city: z.string() }),
  execute: ({ city }) => weather(city),
});
export const makeAgent = (model) => ({ model, prompt: QUESTION, tools: { get_weather }, stopWhen: stepCountIs(4) });


export const hasAnswer = (text) => holds(text.includes("21 degrees in Paris") && text.includes("Tokyo"), text);

export const answers = (model, options = {}) => async () => {
  const { text, reasoningText, usage } = await generateText({ model, prompt: "Hello there", ...options });
  holds(text && reasoningText && usage.outputTokens > 0, { text, reasoningText, usage });
};

export const streams = (model) => async () => {
  const result = streamText({ model, prompt: "Hello there" });
  let text = "";
  for await (const delta of result.textStream) text += delta;
  holds(text && text === (await result.text) && (await result.usage).outputTokens > 0, text);
};

export const callsTools = (agent) => async () => {
  const { text, steps } = await generateText(agent);
  holds(steps[0].toolCalls.length === 2, steps);
  hasAnswer(text);
};

export const streamsTools = (agent) => async () => {
  const result = streamText(agent);
  const text = await result.text;
  holds((await result.steps)[0].toolCalls.length === 2, text);
  hasAnswer(text);
};

export const givesObject = (model) => async () => {
  const schema = z.object({ city: z.string(), degrees: z.number() });
  const { object } = await generateObject({ model, schema, prompt: "What is the weather in Paris?" });
  holds(object.city === "Paris", object);
};

export const checks = (model) => ({
  "a whole reply has text, reasoning and usage": answers(model),
  "a stream: the deltas make the text": streams(model),
  "tools: two calls, their results, an answer": callsTools(makeAgent(model)),
  "tools, streamed: two calls, their results, an answer": streamsTools(makeAgent(model)),
  "an object that follows a schema": givesObject(model),
});
