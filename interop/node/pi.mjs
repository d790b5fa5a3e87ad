// pi's command line, without its screen: it reads files and writes another one. A scripted model plays along.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { V1, run } from "./checks.mjs";
import { holdsError, holdsReplies, holdsReply, holdsTask, readObjects, runProgram } from "./command_checks.mjs";

async function pi(model, prompt, folder) {
  const settings = join(folder, ".pi", "agent");
  mkdirSync(settings, { recursive: true });
  const models = [{ id: model, contextWindow: 32768, maxTokens: 4096 }];
  const provider = { baseUrl: V1, api: "openai-completions", apiKey: "any", models };
  writeFileSync(join(settings, "models.json"), JSON.stringify({ providers: { parley: provider } }));
  const words = ["--print", "--mode", "json", "--provider", "parley", "--model", model, prompt];
  const { status, out, errors } = await runProgram("pi", words, folder, { PI_OFFLINE: "1" });
  const ends = readObjects(out).filter((event) => event.type === "message_end" && event.message.role === "assistant");
  const last = ends.at(-1)?.message;
  const text = last?.content.filter((part) => part.type === "text").map((part) => part.text).join("\n");
  return { status, text, error: last?.stopReason === "error" ? last.errorMessage : undefined, errors };
}

await run("@earendil-works/pi-coding-agent", {
  "a question is answered": () => holdsReply(pi, "demo", "demonstration"),
  "a task with parallel calls: two files are read, another one written, and the task ends well": () => holdsTask(pi),
  "a stream that ends early or begins with a failure is asked for again": () =>
    holdsReplies(pi, ["cut-once", "failing-once"]),
  "an error in a stream ends the turn, if its words are not those of a lost connection": () =>
    holdsError(pi, "broken", /lost the plot/),
  "a stream that breaks each time ends with an error that says so": () => holdsError(pi, "cut", /connection lost/),
  "a 429 is repeated after its Retry-After": () => holdsReply(pi, "busy-once"),
  "a server that stays busy ends with an error that says so": () => holdsError(pi, "busy", /Too many requests/),
  "a prompt that is too long ends with an error that says so": () => holdsError(pi, "long", /context_length_exceeded/),
});
