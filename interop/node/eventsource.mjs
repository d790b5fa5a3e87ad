// EventSource on the resume path: it reconnects by itself behind a proxy that breaks its connections, and loses nothing.
import { connect, createServer } from "node:net";
import { EventSource } from "eventsource";
import { V1, holds, run } from "./checks.mjs";

const BREAK_BYTES = 3000;

/** Start a reply, and stop reading after its first event. Resolves to its ID. */
async function startReply() {
  const body = { model: "demo", messages: [{ role: "user", content: "Hello there" }], cancel_on_disconnect: 30, cache: { mode: "off" } };
  const response = await fetch(`${V1}/chat`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  holds(response.status === 200, response.status);
  await response.body.cancel();
  return response.headers.get("x-parley-response-id");
}

/** A proxy that breaks each connection after some bytes of the response. Resolves to the server. */
function startProxy(breaks) {
  const { hostname, port } = new URL(V1);
  const server = createServer((client) => {
    const gateway = connect(port, hostname);
    let left = BREAK_BYTES;
    gateway.on("data", (data) => {
      client.write(data.subarray(0, left));
      left -= data.length;
      if (left > 0) return;
      breaks.push(left);
      client.destroySoon();
      gateway.destroy();
    });
    client.on("data", (data) => gateway.write(data));
    for (const [one, other] of [[client, gateway], [gateway, client]]) {
      one.on("error", () => {});
      one.on("close", () => other.destroySoon());
    }
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

/** The numbers of the events that EventSource gives until it stops reconnecting. */
function readEvents(url) {
  return new Promise((resolve, reject) => {
    const seen = [];
    const source = new EventSource(url);
    const types = ["response.started", "message.started", "message.delta", "message.completed", "response.completed"];
    for (const type of types) source.addEventListener(type, (event) => seen.push(JSON.parse(event.data)));
    source.addEventListener("error", () => source.readyState === EventSource.CLOSED && resolve(seen));
    setTimeout(() => reject(new Error(`still open after ${seen.length} events`)), 120_000).unref();
  });
}

await run("eventsource", {
  "it reconnects with Last-Event-ID, reads every event once, and stops when the reply has ended": async () => {
    const breaks = [];
    const proxy = await startProxy(breaks);
    const id = await startReply();
    const events = await readEvents(`http://127.0.0.1:${proxy.address().port}/v1/chat/${id}/events`);
    proxy.close();
    const numbers = events.map((event) => event.seq);
    holds(numbers.every((seq, place) => seq === place + 1) && numbers.length > 20, numbers);
    holds(events.at(-1).type === "response.completed" && breaks.length > 1, { last: events.at(-1), breaks: breaks.length });
  },
});
