// Anthropic's SDK for Node: whole and streamed, tools, the tool runner, errors.
import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { z } from "zod";
import { KEY, QUESTION, holds, rejects, run, weather } from "./checks.mjs";

const client = new Anthropic({ baseURL: process.env.PARLEY_URL, apiKey: KEY, maxRetries: 0 });
const hello = { model: "demo", max_tokens: 500, messages: [{ role: "user", content: "Hello there" }] };
const input_schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ name: "get_weather", description: "The weather of a city", input_schema }];
const asked = { ...hello, messages: [{ role: "user", content: QUESTION }], tools };

const texts = (message) => message.content.filter((block) => block.type === "text").map((block) => block.text).join("");

await run("@anthropic-ai/sdk", {
  "a whole reply has a thought, text and usage": async () => {
    const message = await client.messages.create(hello);
    holds(texts(message) && message.content[0].type === "thinking", message);
    holds(message.usage.output_tokens > 0 && message.model === "demo" && message._request_id, message);
  },
  "a stream: the deltas make the whole": async () => {
    const stream = client.messages.stream(hello);
    let text = "";
    stream.on("text", (delta) => (text += delta));
    const message = await stream.finalMessage();
    holds(text && text === texts(message) && message.stop_reason === "end_turn", message);
  },
  "tools: two calls, their results, an answer": async () => {
    const stream = client.messages.stream(asked);
    const said = await stream.finalMessage();
    const calls = said.content.filter((block) => block.type === "tool_use");
    holds(calls.length === 2 && calls[0].input.city === "Paris" && said.stop_reason === "tool_use", said);
    const content = calls.map(({ id, input }) => ({ type: "tool_result", tool_use_id: id, content: weather(input.city) }));
    const history = [...asked.messages, { role: "assistant", content: said.content }, { role: "user", content }];
    const answer = await client.messages.create({ ...asked, messages: history });
    holds(texts(answer).includes("21 degrees in Paris") && texts(answer).includes("Tokyo"), answer);
  },
  "the tool runner, which asks for a thread first": async () => {
    const tool = betaZodTool({
      name: "get_weather",
      description: "The weather of a city",
      inputSchema: z.object({ city: z.string() }),
      run: ({ city }) => weather(city),
    });
    const answer = await client.beta.messages.toolRunner({ ...asked, tools: [tool] });
    holds(texts(answer).includes("21 degrees in Paris"), answer);
  },
  "tokens are counted": async () => {
    const { input_tokens } = await client.messages.countTokens({ model: "demo", messages: asked.messages, tools });
    holds(input_tokens > 10, input_tokens);
  },
  "the models are listed": async () => {
    const page = await client.models.list();
    holds(page.data.some((model) => model.id === "demo" && model.display_name), page);
  },
  "NotFoundError for an unknown model, RateLimitError for a server that reports its rate limit": async () => {
    await rejects(Anthropic.NotFoundError, () => client.messages.create({ ...hello, model: "nobody" }));
    await rejects(Anthropic.RateLimitError, () => client.messages.create({ ...hello, model: "busy" }));
  },
  "an interrupted stream is an error": async () => {
    for (const model of ["broken", "cut"])
      await rejects(Anthropic.APIError, () => client.messages.stream({ ...hello, model }).finalMessage());
  },
});
