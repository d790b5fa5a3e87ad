// Claude Code's command line, without its screen: it reads a file and writes another one. A scripted model plays along.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { holds, run } from "./checks.mjs";

const program = new URL("./node_modules/.bin/claude", import.meta.url).pathname;

function scratch() {
  const folder = mkdtempSync(join(tmpdir(), "claude-code-"));
  writeFileSync(join(folder, "in.txt"), "the secret is 4711\n");
  return folder;
}

function claude(model, prompt, folder, ...more) {
  const environment = {
    PATH: process.env.PATH,
    HOME: folder,
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
  return new Promise((resolve) => {
    const child = spawn(program, words, { cwd: folder, env: environment, stdio: ["ignore", "pipe", "pipe"] });
    const timer = setTimeout(() => child.kill(), 120_000);
    let out = "";
    let errors = "";
    child.stdout.on("data", (data) => (out += data));
    child.stderr.on("data", (data) => (errors += data));
    child.on("close", (status) => {
      clearTimeout(timer);
      const line = out.split("\n").findLast((one) => one.startsWith("{") || one.startsWith("["));
      const told = line ? JSON.parse(line) : null;
      const result = Array.isArray(told) ? told.findLast((one) => one.type === "result") : told;
      resolve({ status, result, errors: (errors || out).slice(-400) });
    });
  });
}

await run("@anthropic-ai/claude-code", {
  "a question is answered": async () => {
    const { status, result, errors } = await claude("demo", "Hello there", scratch());
    holds(status === 0 && result?.subtype === "success" && !result.is_error && result.result, { status, result, errors });
  },
  "a task with two tools: a file is read, another one written, and the task ends well": async () => {
    const folder = scratch();
    const prompt = `Copy the file.\nFROM: ${join(folder, "in.txt")}\nTO: ${join(folder, "out.txt")}`;
    const { status, result, errors } = await claude("coder", prompt, folder, "--allowedTools", "Read,Write");
    holds(status === 0 && result?.subtype === "success" && !result.is_error, { status, result, errors });
    holds(result.result === "The file is copied." && result.num_turns >= 3, result);
    holds(readFileSync(join(folder, "out.txt"), "utf8") === "the secret is 4711", folder);
  },
  "a stream that breaks is an error, not an empty answer": async () => {
    const { result, errors } = await claude("broken", "Hello there", scratch());
    holds(result?.is_error, { result, errors });
  },
});
