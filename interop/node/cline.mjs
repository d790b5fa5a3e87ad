// Cline's command line, without its screen: it reads files and writes another one. A scripted model plays along.
import { V1, holds, run } from "./checks.mjs";
import { holdsError, holdsReplies, holdsReply, holdsTask, readObjects, runProgram } from "./command_checks.mjs";

async function cline(model, prompt, folder) {
  const environment = { CLINE_TELEMETRY_DISABLED: "1" };
  const login = ["auth", "openai", "--apikey", "any", "--modelid", model, "--baseurl", V1];
  const ready = await runProgram("cline", login, folder, environment);
  holds(ready.status === 0, ready);
  const { status, out, errors } = await runProgram("cline", ["--json", prompt], folder, environment);
  const result = readObjects(out).find((event) => event.type === "run_result");
  const done = result?.finishReason === "completed";
  return { status, text: done ? result.text : "", error: done ? "" : result?.text, errors };
}

await run("cline", {
  "a question is answered": () => holdsReply(cline, "demo", "demonstration"),
  "a task with parallel calls: two files are read, another one written, and the task ends well": () => holdsTask(cline),
  "a reply that begins with a failure is asked for again": () => holdsReplies(cline, ["failing-once"]),
  "a stream that breaks or ends early ends with an error that says so": async () => {
    await holdsError(cline, "broken", /lost the plot/);
    await holdsError(cline, "cut", /connection lost/);
  },
  "a 429 is repeated after its Retry-After": () => holdsReply(cline, "busy-once"),
  "a server that stays busy ends with an error that says so": () => holdsError(cline, "busy", /Too many requests/),
  "a prompt that is too long ends with an error that says so": () => holdsError(cline, "long", /maximum context length/),
});
