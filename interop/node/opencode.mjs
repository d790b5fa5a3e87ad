// OpenCode's command line, without its screen: it reads files and writes another one. A scripted model plays along.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { V1, run } from "./checks.mjs";
import { holdsError, holdsReplies, holdsReply, holdsTask, makeFolder, readObjects, runProgram } from "./command_checks.mjs";

const LIMIT = { context: 32768, output: 4096 };

async function opencode(model, prompt, folder) {
  const provider = { npm: "@ai-sdk/openai-compatible", options: { baseURL: V1, apiKey: "any" }, models: { [model]: { limit: LIMIT } } };
  writeFileSync(join(folder, "opencode.json"), JSON.stringify({ provider: { parley: provider } }));
  const environment = { OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1" };
  const words = ["run", "--format", "json", "--auto", "--model", `parley/${model}`, prompt];
  const { status, out, errors } = await runProgram("opencode", words, folder, environment);
  const events = readObjects(out);
  const text = events.filter((event) => event.type === "text").map((event) => event.part.text).join("\n");
  const error = events.find((event) => event.type === "error")?.error;
  return { status, text, error: error && JSON.stringify(error), errors };
}

await run("opencode-ai", {
  "a question is answered": () => holdsReply(opencode, "demo", "demonstration"),
  "a task with parallel calls: two files are read, another one written, and the task ends well": () => holdsTask(opencode),
  "a stream that breaks, ends early or begins with a failure is asked for again": () =>
    holdsReplies(opencode, ["broken-once", "cut-once", "failing-once"]),
  "a 429 is repeated after its Retry-After": () => holdsReply(opencode, "busy-once"),
  "a prompt that is too long ends with an error that says so": () => holdsError(opencode, "long", /maximum context length/),
});
