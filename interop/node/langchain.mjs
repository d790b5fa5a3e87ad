// LangChain.js with ChatOpenAI: invoke, stream, bound tools, answers that follow a schema.
import { HumanMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { z } from "zod";
import { KEY, QUESTION, V1, holds, run, weather } from "./checks.mjs";

const model = new ChatOpenAI({ model: "demo", apiKey: KEY, configuration: { baseURL: V1 }, maxRetries: 0 });
const schema = z.object({ city: z.string() });
const get_weather = tool(({ city }) => weather(city), { name: "get_weather", description: "The weather of a city", schema });

async function gathered(stream) {
  let whole;
  for await (const chunk of stream) whole = whole ? whole.concat(chunk) : chunk;
  return whole;
}

async function answered(ask) {
  const asked = [new HumanMessage(QUESTION)];
  const said = await ask(asked);
  holds(said.tool_calls.length === 2, said);
  const results = await Promise.all(said.tool_calls.map((call) => get_weather.invoke(call)));
  const { text } = await ask([...asked, said, ...results]);
  holds(text.includes("21 degrees in Paris") && text.includes("Tokyo"), text);
}

await run("@langchain/openai", {
  "invoke: text and usage": async () => {
    const reply = await model.invoke("Hello there");
    holds(reply.text && reply.usage_metadata.output_tokens > 0, reply);
  },
  "stream: the chunks make the text": async () => {
    const whole = await gathered(await model.stream("Hello there"));
    holds(whole.text === (await model.invoke("Hello there")).text, whole);
  },
  "bindTools: two calls, their results, an answer": async () => {
    const bound = model.bindTools([get_weather]);
    await answered((messages) => bound.invoke(messages));
  },
  "bindTools, streamed: two calls, their results, an answer": async () => {
    const bound = model.bindTools([get_weather]);
    await answered(async (messages) => gathered(await bound.stream(messages)));
  },
  "withStructuredOutput: by the response format, by a function": async () => {
    const wanted = z.object({ city: z.string(), degrees: z.number() });
    for (const method of ["jsonSchema", "functionCalling"]) {
      const answer = await model.withStructuredOutput(wanted, { method, name: "weather" }).invoke("The weather in Paris");
      holds(answer.city === "Paris", answer);
    }
  },
});
