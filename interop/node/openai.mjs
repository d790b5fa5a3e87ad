// OpenAI's SDK for Node: whole and streamed, helpers that run tools, errors.
import OpenAI from "openai";
import { KEY, QUESTION, V1, holds, rejects, run } from "./checks.mjs";

const client = new OpenAI({ baseURL: V1, apiKey: KEY, maxRetries: 0 });
const hello = [{ role: "user", content: "Hello there" }];
const asked = [{ role: "user", content: QUESTION }];
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const weather = { name: "get_weather", description: "The weather of a city", parameters };
const tools = [{ type: "function", function: weather }];

async function gathered(stream) {
  const made = { thought: "", text: "", calls: [], finish: null, usage: null };
  for await (const chunk of stream) {
    made.usage = chunk.usage ?? made.usage;
    for (const choice of chunk.choices) {
      made.thought += choice.delta.reasoning_content ?? "";
      made.text += choice.delta.content ?? "";
      made.finish = choice.finish_reason ?? made.finish;
      for (const call of choice.delta.tool_calls ?? []) {
        made.calls[call.index] ??= { id: call.id, name: call.function.name, arguments: "" };
        made.calls[call.index].arguments += call.function.arguments ?? "";
      }
    }
  }
  return made;
}

const runnable = [
  { type: "function", function: { ...weather, parse: JSON.parse, function: ({ city }) => `21 degrees in ${city}` } },
];

await run("openai", {
  "models are listed, and one is read": async () => {
    const listed = [];
    for await (const model of client.models.list()) listed.push(model.id);
    holds(listed.includes("demo"), listed);
    holds((await client.models.retrieve("demo")).id === "demo");
  },
  "a whole reply has reasoning, text, usage and a finish reason": async () => {
    const { choices, usage } = await client.chat.completions.create({ model: "demo", messages: hello });
    holds(choices[0].message.reasoning_content && choices[0].message.content, choices);
    holds(choices[0].finish_reason === "stop" && usage.total_tokens > 0, choices);
  },
  "a stream has reasoning, text and usage": async () => {
    const options = { stream: true, stream_options: { include_usage: true } };
    const made = await gathered(await client.chat.completions.create({ model: "demo", messages: hello, ...options }));
    holds(made.thought && made.text && made.finish === "stop" && made.usage.total_tokens > 0, made);
  },
  "tools, streamed: two calls, their results, an answer": async () => {
    const made = await gathered(
      await client.chat.completions.create({ model: "demo", messages: asked, tools, stream: true }),
    );
    holds(made.calls.length === 2 && made.finish === "tool_calls", made);
    const calls = made.calls.map((call) => ({
      id: call.id,
      type: "function",
      function: { name: call.name, arguments: call.arguments },
    }));
    const results = calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: "21 degrees" }));
    const messages = [...asked, { role: "assistant", content: made.text, tool_calls: calls }, ...results];
    const answer = await client.chat.completions.create({ model: "demo", messages, tools });
    holds(answer.choices[0].message.content.includes("21 degrees"), answer);
  },
  "the stream() helper: an assembled completion": async () => {
    const runner = client.chat.completions.stream({ model: "demo", messages: asked, tools });
    let text = "";
    runner.on("content", (delta) => (text += delta));
    const final = await runner.finalChatCompletion();
    holds(final.choices[0].message.tool_calls.length === 2 && final.choices[0].message.content === text, final);
  },
  "the runTools() helper, whole and streamed: an answer": async () => {
    for (const stream of [false, true]) {
      const runner = client.chat.completions.runTools({ model: "demo", messages: asked, tools: runnable, stream });
      const content = await runner.finalContent();
      holds(content.includes("21 degrees in Paris") && content.includes("Tokyo"), content);
    }
  },
  "a stream that is aborted leaves the client usable": async () => {
    const stream = await client.chat.completions.create({ model: "demo", messages: hello, stream: true });
    for await (const _ of stream) break;
    await client.chat.completions.create({ model: "demo", messages: hello });
  },
  "NotFoundError for an unknown model": async () => {
    const error = await rejects(OpenAI.NotFoundError, () =>
      client.chat.completions.create({ model: "nobody", messages: hello }),
    );
    holds(error.code === "model_not_found" && error.param === "model", error);
  },
  "BadRequestError or UnprocessableEntityError, with the path, for an invalid message": async () => {
    const messages = [{ role: "user", content: [{ type: "picture" }] }];
    const error = await rejects(OpenAI.APIError, () => client.chat.completions.create({ model: "demo", messages }));
    holds([400, 422].includes(error.status) && error.param.startsWith("messages[0]"), error);
  },
  "RateLimitError for a server that reports its rate limit": async () => {
    await rejects(OpenAI.RateLimitError, () => client.chat.completions.create({ model: "busy", messages: hello }));
  },
  "APIError in an interrupted stream, with an error or without": async () => {
    for (const model of ["broken", "cut"]) {
      const stream = await client.chat.completions.create({ model, messages: hello, stream: true });
      await rejects(OpenAI.APIError, () => gathered(stream));
    }
  },
});
