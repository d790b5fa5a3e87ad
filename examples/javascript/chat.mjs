// Stream a reply of POST /v1/chat, answer its function calls, and stream the answer. Needs Node 18 or newer.
const { PARLEY_URL, PARLEY_API_KEY = "any" } = process.env;
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const functions = [{ name: "get_weather", description: "The weather of a city", parameters }];

// Yields the JSON of each server-sent event, however the stream is cut into pieces.
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

// Prints a reply as it arrives, and returns its messages.
async function streamReply(messages) {
  const headers = { "content-type": "application/json", authorization: `Bearer ${PARLEY_API_KEY}` };
  const body = JSON.stringify({ model: "demo", messages, functions });
  const response = await fetch(`${PARLEY_URL}/v1/chat`, { method: "POST", headers, body });
  if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
  const reply = [];
  for await (const event of readEvents(response.body)) {
    if (event.type === "message.started") {
      process.stdout.write(`[${event.kind}] ${event.message.function_call?.name ?? ""} `);
    } else if (event.type === "message.delta") {
      const { reasoning_content, content, function_call } = event.delta;
      process.stdout.write(reasoning_content ?? content ?? function_call.arguments);
    } else if (event.type === "message.completed") {
      reply.push(event.message);
      process.stdout.write("\n");
    } else if (event.type === "response.failed") throw new Error(`${event.error.code}: ${event.error.message}`);
    else if (event.type === "response.completed") return reply;
  }
  throw new Error("the stream was cut off");
}

// Calls the function, and returns the message with its result.
function answerCall({ function_call: call, extra }) {
  const content = `It is 21 °C in ${JSON.parse(call.arguments).city}.`;
  console.log(`[result] ${content}`);
  return { role: "function", name: call.name, content, extra };
}

const messages = [{ role: "user", content: "What is the weather in Paris?" }];
while (messages.at(-1).role !== "assistant") {
  const reply = await streamReply(messages);
  messages.push(...reply, ...reply.filter((message) => message.function_call).map(answerCall));
}
