// An agent with a tool and an image, which reads on after a lost connection without losing a token. Needs Node 18 or newer.
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

const { PARLEY_URL, PARLEY_API_KEY = "any" } = process.env;
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const functions = [{ name: "get_weather", description: "The weather of a city", parameters }];
const image = `data:image/png;base64,${await readFile("image.png", "base64")}`;
const MAX_LOST = 5; // connections that bring nothing new, one after another

// Yields the JSON of each complete server-sent event. An event that was cut is not one.
async function* readEvents(body) {
  let rest = "";
  let data = [];
  for await (const piece of body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop();
    for (const line of lines.map((line) => line.replace(/\r$/, ""))) {
      if (line.startsWith("data:")) data.push(line.slice(5));
      else if (line === "" && data.length) yield JSON.parse(data.splice(0).join("\n"));
    }
  }
}

// Yields the events of a reply to its end. After a lost connection it resumes the reply where it stopped.
async function* followReply(body) {
  const headers = { "content-type": "application/json", authorization: `Bearer ${PARLEY_API_KEY}` };
  let id = null;
  let last = 0;
  for (let lost = 1; lost <= MAX_LOST; lost++) {
    // A request that got no answer at all is sent again. One that got an answer has an ID to resume by.
    const asked = id
      ? fetch(`${PARLEY_URL}/v1/chat/${id}/events?after=${last}`, { headers })
      : fetch(`${PARLEY_URL}/v1/chat`, { method: "POST", headers, body: JSON.stringify(body) });
    const response = await asked.catch(() => null);
    if (response && response.status !== 200) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
    id = response?.headers.get("x-parley-response-id") ?? id;
    const events = response ? readEvents(response.body) : [].values();
    while (true) {
      const next = await Promise.resolve(events.next()).catch(() => ({ done: true })); // the connection was lost
      if (next.done) break;
      if (next.value.seq > last) [last, lost] = [next.value.seq, 0];
      yield next.value;
      if (["response.completed", "response.failed"].includes(next.value.type)) return;
    }
    await sleep(100 * lost);
  }
  throw new Error("the stream was cut off");
}

// Prints a reply as it arrives, and returns its messages.
async function streamReply(messages) {
  const reply = [];
  // The call of the model goes on for 30 seconds without a client: the time to come back.
  for await (const event of followReply({ model: "demo", messages, functions, cancel_on_disconnect: 30 })) {
    if (event.type === "message.started") {
      process.stdout.write(`[${event.kind}] ${event.message.function_call?.name ?? ""} `);
    } else if (event.type === "message.delta") {
      const { reasoning_content, content, function_call } = event.delta;
      process.stdout.write(reasoning_content ?? content ?? function_call.arguments);
    } else if (event.type === "message.completed") {
      reply.push(event.message);
      process.stdout.write("\n");
    } else if (event.type === "response.failed") throw new Error(`${event.error.code}: ${event.error.message}`);
  }
  return reply;
}

// Calls the function, and returns the message with its result.
function answerCall({ function_call: call, extra }) {
  const content = `It is 21 °C in ${JSON.parse(call.arguments).city}.`;
  console.log(`[result] ${content}`);
  return { role: "function", name: call.name, content, extra };
}

const messages = [{ role: "user", content: [{ image }, { text: "What is the weather in Paris?" }] }];
while (messages.at(-1).role !== "assistant") {
  const reply = await streamReply(messages);
  messages.push(...reply, ...reply.filter((message) => message.function_call).map(answerCall));
}
