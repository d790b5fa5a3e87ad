// Continue's command line, without its screen: it reads files and writes another one. A scripted model plays along.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { V1, run } from "./checks.mjs";
import { holdsError, holdsReplies, holdsReply, holdsTask, readObjects, runProgram } from "./command_checks.mjs";

async function askContinue(model, prompt, folder) {
  const models = [{ name: model, provider: "openai", model, apiBase: V1, apiKey: "any", roles: ["chat"], capabilities: ["tool_use"] }];
  // A page of JSON is one of YAML.
  writeFileSync(join(folder, "config.yaml"), JSON.stringify({ name: "Parley", version: "1.0.0", schema: "v1", models }));
  const environment = { CONTINUE_TELEMETRY_ENABLED: "0" };
  const words = ["--auto", "--config", join(folder, "config.yaml"), "--print", prompt];
  const { status, out, errors } = await runProgram("cn", words, folder, environment);
  const error = readObjects(`${out}\n${errors}`).find((one) => one.status === "error")?.message;
  return { status, text: out, error, errors };
}

await run("@continuedev/cli", {
  "a question is answered": () => holdsReply(askContinue, "demo", "demonstration"),
  "a task with parallel calls: two files are read, another one written, and the task ends well": () => holdsTask(askContinue),
  "a stream that breaks, ends early or begins with a failure is asked for again": () =>
    holdsReplies(askContinue, ["broken-once", "cut-once", "failing-once"]),
  "a stream that breaks each time ends with an error that says so": () => holdsError(askContinue, "cut", /connection lost/),
  "a 429 is repeated": () => holdsReply(askContinue, "busy-once"),
  "a prompt that is too long ends with an error that says so": () => holdsError(askContinue, "long", /[Cc]ontext length/),
});
