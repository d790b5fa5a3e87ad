// Claude Code's command line, without its screen: it reads a file and writes another one. A scripted model plays along.
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

await run("@anthropic-ai/claude-code", {
  "a question is answered": async () => {
    const { status, result, errors } = await claude("demo", "Hello there", makeFolder("claude-code-"));
    holds(status === 0 && result?.subtype === "success" && !result.is_error && result.result, { status, result, errors });
  },
  "a task with two tools: a file is read, another one written, and the task ends well": async () => {
    const folder = makeFolder("claude-code-");
    const { status, result, errors } = await claude("coder", askToCopy(folder), folder, "--allowedTools", "Read,Write");
    holds(status === 0 && result?.subtype === "success" && !result.is_error, { status, result, errors });
    holds(result.result === "The file is copied." && result.num_turns >= 3, result);
    holdsCopy(folder);
  },
  "a stream that breaks is an error, not an empty answer": async () => {
    const { result, errors } = await claude("broken", "Hello there", makeFolder("claude-code-"));
    holds(result?.is_error, { result, errors });
  },
});
