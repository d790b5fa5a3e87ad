// OpenAI's SDK for Node with the Responses API: whole and streamed, tools, the store, background, errors.
import OpenAI from "openai";
import { KEY, QUESTION, V1, holds, rejects, run, weather } from "./checks.mjs";

const client = new OpenAI({ baseURL: V1, apiKey: KEY, maxRetries: 0 });
const hello = { model: "demo", input: "Hello there" };
const parameters = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const tools = [{ type: "function", name: "get_weather", description: "The weather of a city", parameters, strict: true }];
const asked = { model: "demo", tools };

const callsOf = (response) => response.output.filter((item) => item.type === "function_call");
const results = (response) =>
  callsOf(response).map(({ call_id, arguments: given }) => ({
    type: "function_call_output",
    call_id,
    output: weather(JSON.parse(given).city),
  }));

await run("openai", {
  "a whole reply: reasoning, text and usage": async () => {
    const reply = await client.responses.create(hello);
    holds(reply.output_text && reply.status === "completed" && reply.usage.output_tokens > 0, reply);
    holds(reply.output[0].type === "reasoning" && reply._request_id, reply.output);
  },
  "a stream: the SDK's accumulator makes the final response of it": async () => {
    const stream = client.responses.stream(hello);
    let text = "";
    stream.on("response.output_text.delta", (event) => (text += event.delta));
    const reply = await stream.finalResponse();
    holds(text && text === reply.output_text && reply.status === "completed", reply);
  },
  "tools without the store: two calls, their results, an answer": async () => {
    const input = [{ role: "user", content: QUESTION }];
    const options = { ...asked, store: false, include: ["reasoning.encrypted_content"] };
    const said = await client.responses.stream({ ...options, input }).finalResponse();
    holds(callsOf(said).length === 2 && callsOf(said)[0].arguments.includes("Paris"), said);
    const history = [...input, ...said.output.map(({ parsed_arguments, ...item }) => item), ...results(said)];
    const answer = await client.responses.create({ ...options, input: history });
    holds(answer.output_text.includes("21 degrees in Paris") && answer.output_text.includes("Tokyo"), answer);
  },
  "`previous_response_id`: continued, or refused by a gateway that stores nothing": async () => {
    const first = await client.responses.create({ ...asked, input: QUESTION });
    const more = { ...asked, previous_response_id: first.id, input: results(first) };
    if (!first.store) {
      const error = await rejects(OpenAI.BadRequestError, () => client.responses.create(more));
      holds(error.code === "previous_response_not_found", error);
      return;
    }
    holds((await client.responses.create(more)).output_text.includes("21 degrees in Paris"));
    holds((await client.responses.inputItems.list(first.id)).data.length === 1);
    await client.responses.delete(first.id);
    await rejects(OpenAI.NotFoundError, () => client.responses.retrieve(first.id));
  },
  "`background`: polled until it is complete, or refused by a gateway that stores nothing": async () => {
    if (!(await client.responses.create(hello)).store) {
      await rejects(OpenAI.BadRequestError, () => client.responses.create({ ...hello, background: true }));
      return;
    }
    let reply = await client.responses.create({ ...hello, background: true });
    for (let times = 0; times < 200 && ["queued", "in_progress"].includes(reply.status); times++) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      reply = await client.responses.retrieve(reply.id);
    }
    holds(reply.status === "completed" && reply.output_text, reply);
    holds((await client.responses.cancel(reply.id)).status === "completed", reply);
  },
  "NotFoundError for an unknown model, RateLimitError for a server that reports its rate limit": async () => {
    await rejects(OpenAI.NotFoundError, () => client.responses.create({ ...hello, model: "nobody" }));
    await rejects(OpenAI.RateLimitError, () => client.responses.create({ ...hello, model: "busy" }));
  },
  "an interrupted stream is a failed response": async () => {
    for (const model of ["broken", "cut"]) {
      const reply = await client.responses.stream({ ...hello, model }).finalResponse();
      holds(reply.status === "failed" && reply.error.code === "server_error", reply);
    }
  },
});
