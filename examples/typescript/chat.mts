// Stream a reply of POST /v1/chat, answer its function calls, and stream the answer. Needs Node 22.18 or newer.
type Call = { name: string; arguments: string };
type Message = { role: string; content: string; name?: string; function_call?: Call; extra?: object };
type Frame =
  | { type: "message.started"; kind: string; message: { function_call?: Call } }
  | { type: "message.delta"; delta: Partial<Record<"reasoning_content" | "content", string>> & { function_call?: Call } }
  | { type: "message.completed"; message: Message }
  | { type: "response.completed" } | { type: "response.failed"; error: { code: string; message: string } };

const { PARLEY_URL, PARLEY_API_KEY = "any" } = process.env;
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const functions = [{ name: "get_weather", description: "The weather of a city", parameters }];

// Yields the JSON of each server-sent event, however the stream is cut into pieces.
async function* readFrames(body: ReadableStream<Uint8Array>): AsyncGenerator<Frame> {
  const [reader, decoder, data] = [body.getReader(), new TextDecoder(), [] as string[]] as const;
  let rest = "";
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    const lines = (rest + decoder.decode(read.value, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines.map((line) => line.replace(/\r$/, ""))) {
      if (line.startsWith("data:")) data.push(line.slice(5));
      else if (line === "" && data.length) yield JSON.parse(data.splice(0).join("\n"));
    }
  }
}

// Prints a reply as it arrives, and returns its messages.
async function streamReply(messages: Message[]): Promise<Message[]> {
  const headers = { "content-type": "application/json", authorization: `Bearer ${PARLEY_API_KEY}` };
  const body = JSON.stringify({ model: "demo", messages, functions });
  const response = await fetch(`${PARLEY_URL}/v1/chat`, { method: "POST", headers, body });
  if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
  const reply: Message[] = [];
  for await (const frame of readFrames(response.body!)) {
    if (frame.type === "message.started")
      process.stdout.write(`[${frame.kind}] ${frame.message.function_call?.name ?? ""} `);
    else if (frame.type === "message.delta") {
      const { reasoning_content, content, function_call } = frame.delta;
      process.stdout.write(reasoning_content ?? content ?? function_call?.arguments ?? "");
    } else if (frame.type === "message.completed") {
      reply.push(frame.message);
      process.stdout.write("\n");
    } else if (frame.type === "response.failed") throw new Error(`${frame.error.code}: ${frame.error.message}`);
    else if (frame.type === "response.completed") return reply;
  }
  throw new Error("the stream was cut off");
}

function answerCall({ name, arguments: text }: Call, extra?: object): Message {
  const content = `It is 21 °C in ${JSON.parse(text).city}.`;
  console.log(`[result] ${content}`);
  return { role: "function", name, content, extra };
}

const messages: Message[] = [{ role: "user", content: "What is the weather in Paris?" }];
while (messages.at(-1)?.role !== "assistant") {
  const reply = await streamReply(messages);
  messages.push(...reply, ...reply.flatMap(({ function_call: call, extra }) => (call ? [answerCall(call, extra)] : [])));
}
