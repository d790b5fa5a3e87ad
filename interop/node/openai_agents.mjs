// OpenAI's Agents SDK for Node in its Chat Completions mode: an agent with a tool to its end, streams, an answer by schema.
import { Agent, OpenAIChatCompletionsModel, run as ask, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";
import { KEY, QUESTION, V1, holds, run, weather } from "./checks.mjs";

setTracingDisabled(true);
const model = new OpenAIChatCompletionsModel(new OpenAI({ baseURL: V1, apiKey: KEY, maxRetries: 0 }), "demo");
const get_weather = tool({
  name: "get_weather",
  description: "The weather of a city",
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => weather(city),
});
const agent = (options) => new Agent({ name: "helper", instructions: "Be brief.", model, ...options });

async function streamed(helper, question) {
  const result = await ask(helper, question, { stream: true });
  let text = "";
  for await (const piece of result.toTextStream()) text += piece;
  await result.completed;
  return [text, result.finalOutput];
}

await run("@openai/agents", {
  "a whole reply": async () => {
    const { finalOutput } = await ask(agent(), "Hello there");
    holds(finalOutput, finalOutput);
  },
  "a stream: the deltas make the text": async () => {
    const [text, output] = await streamed(agent(), "Hello there");
    holds(text && text === output, { text, output });
  },
  "a tool: two calls, their results, an answer, whole and streamed": async () => {
    const helper = agent({ tools: [get_weather] });
    const { finalOutput } = await ask(helper, QUESTION);
    const [, output] = await streamed(helper, QUESTION);
    for (const answer of [finalOutput, output])
      holds(answer.includes("21 degrees in Paris") && answer.includes("Tokyo"), answer);
  },
  "an answer that follows a schema": async () => {
    const outputType = z.object({ city: z.string(), degrees: z.number() });
    const { finalOutput } = await ask(agent({ outputType }), "What is the weather in Paris?");
    holds(finalOutput.city === "Paris", finalOutput);
  },
});
