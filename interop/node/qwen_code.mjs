// Qwen Code's command line, without its screen: it reads files and writes another one. A scripted model plays along.
import { V1, run } from "./checks.mjs";
import { holdsError, holdsReplies, holdsReply, holdsTask, runProgram } from "./command_checks.mjs";

async function qwen(model, prompt, folder) {
  const environment = { OPENAI_BASE_URL: V1, OPENAI_API_KEY: "any" };
  const words = ["--auth-type", "openai", "--model", model, "--yolo", "--output-format", "json", prompt];
  const { status, out, errors } = await runProgram("qwen", words, folder, environment);
  const line = out.split("\n").find((one) => one.startsWith("["));
  const result = line && JSON.parse(line).findLast((event) => event.type === "result");
  return { status, text: result?.result, error: result?.error?.message, errors };
}

await run("@qwen-code/qwen-code", {
  "a question is answered": () => holdsReply(qwen, "silent"),
  "a task with parallel calls: two files are read, another one written, and the task ends well": () => holdsTask(qwen),
  "a stream that breaks, ends early or begins with a failure is asked for again": () =>
    holdsReplies(qwen, ["broken-once", "cut-once", "failing-once"]),
  "a stream that breaks each time ends with an error that says so": () => holdsError(qwen, "cut", /connection lost/),
  "a 429 is repeated after its Retry-After": () => holdsReply(qwen, "busy-once"),
  "a prompt that is too long ends with an error that says so": () => holdsError(qwen, "long", /maximum context length/),
});
