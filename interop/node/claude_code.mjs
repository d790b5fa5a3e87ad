// Claude Code's command line, without its screen: it reads files and writes another one. A scripted model plays along.
import { holds, run } from "./checks.mjs";
import { askToCopy, holdsCopy, makeFolder, runProgram } from "./command_checks.mjs";

async function claude(model, prompt, folder, ...more) {
  const environment = {
    ANTHROPIC_BASE_URL: process.env.PARLEY_URL,
    ANTHROPIC_API_KEY: "not-needed",
    ANTHROPIC_SMALL_FAST_MODEL: model,
    ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_TELEMETRY: "1",
    DISABLE_ERROR_REPORTING: "1",
    DISABLE_AUTOUPDATER: "1",
    CLAUDE_CODE_MAX_RETRIES: "1",
  };
  const words = ["-p", prompt, "--model", model, "--output-format", "json", "--max-turns", "6", ...more];
  const { status, out, errors } = await runProgram("claude", words, folder, environment);
  const line = out.split("\n").findLast((one) => one.startsWith("{") || one.startsWith("["));
  const printed = line ? JSON.parse(line) : null;
  const result = Array.isArray(printed) ? printed.findLast((one) => one.type === "result") : printed;
  return { status, result, errors };
}

function holdsAnswer({ status, result, errors }, text) {
  holds(status === 0 && result?.subtype === "success" && !result.is_error, { status, result, errors });
  holds(result.result === text, result);
}

function holdsFailure({ result, errors }, words) {
  holds(result?.is_error, { result, errors });
  holds(words.test(result.result), result);
}

const ask = (model) => claude(model, `Hello there, ${model}`, makeFolder("claude-code-"));

await run("@anthropic-ai/claude-code", {
  "a question is answered": async () => {
    const { status, result, errors } = await claude("demo", "Hello there", makeFolder("claude-code-"));
    holds(status === 0 && result?.subtype === "success" && !result.is_error && result.result, { status, result, errors });
  },
  "a task with parallel calls: two files are read, another one written, and the task ends well": async () => {
    const folder = makeFolder("claude-code-");
    const done = await claude("coder", askToCopy(folder), folder, "--allowedTools", "Read,Write");
    holdsAnswer(done, "The file is copied.");
    holds(done.result.num_turns >= 3, done.result);
    holdsCopy(folder);
  },
  "a model server that is silent for ten seconds is waited for": async () => {
    holdsAnswer(await ask("silent"), "All is well.");
  },
  "a stream that breaks is an error, not an empty answer": async () => {
    for (const model of ["broken", "cut"]) {
      holdsFailure(await ask(model), /./);
    }
  },
  "a server that is busy or fails once is asked again": async () => {
    for (const model of ["busy-once", "failing-once"]) {
      holdsAnswer(await ask(model), "All is well.");
    }
  },
  "a prompt that is too long is an error that says so": async () => {
    holdsFailure(await ask("long"), /[Pp]rompt is too long/);
  },
});
