// Codex's command line, without its screen: it reads a file and writes another one. A scripted model plays along.
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { V1, holds, run } from "./checks.mjs";

const program = new URL("./node_modules/.bin/codex", import.meta.url).pathname;

function scratch() {
  const folder = mkdtempSync(join(tmpdir(), "codex-"));
  writeFileSync(join(folder, "in.txt"), "the secret is 4711\n");
  return folder;
}

function codex(model, prompt, folder) {
  const home = join(folder, "home");
  mkdirSync(home);
  const provider = { name: "Parley", base_url: V1, wire_api: "responses", env_key: "PARLEY_KEY" };
  const settings = Object.entries({ ...provider, request_max_retries: 0, stream_max_retries: 0 });
  const lines = settings.map(([key, value]) => `${key} = ${JSON.stringify(value)}`).join("\n");
  const head = `model = "${model}"\nmodel_provider = "parley"\napproval_policy = "never"\n`;
  writeFileSync(join(home, "config.toml"), `${head}\n[model_providers.parley]\n${lines}\n`);
  const environment = { PATH: process.env.PATH, HOME: folder, CODEX_HOME: home, PARLEY_KEY: "not-needed" };
  const words = ["exec", "--json", "--skip-git-repo-check", "--sandbox", "danger-full-access", prompt];
  return new Promise((resolve) => {
    const child = spawn(program, words, { cwd: folder, env: environment, stdio: ["ignore", "pipe", "pipe"] });
    const timer = setTimeout(() => child.kill(), 120_000);
    let out = "";
    let errors = "";
    child.stdout.on("data", (data) => (out += data));
    child.stderr.on("data", (data) => (errors += data));
    child.on("close", (status) => {
      clearTimeout(timer);
      const events = out.split("\n").filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
      const items = events.filter((event) => event.type === "item.completed").map((event) => event.item);
      const kinds = events.map((event) => event.type);
      resolve({ status, kinds, items, errors: (errors || out).slice(-400) });
    });
  });
}

const spoken = (items) => items.filter((item) => item.type === "agent_message").map((item) => item.text);

await run("@openai/codex", {
  "a question is answered": async () => {
    const { status, kinds, items, errors } = await codex("demo", "Hello there", scratch());
    holds(status === 0 && kinds.includes("turn.completed") && spoken(items).join(""), { status, kinds, items, errors });
  },
  "a task with two calls: a file is read, another one written, and the task ends well": async () => {
    const folder = scratch();
    const prompt = `Copy the file.\nFROM: ${join(folder, "in.txt")}\nTO: ${join(folder, "out.txt")}`;
    const { status, kinds, items, errors } = await codex("coder", prompt, folder);
    const commands = items.filter((item) => item.type === "command_execution");
    holds(status === 0 && kinds.includes("turn.completed"), { status, kinds, items, errors });
    holds(commands.length === 2 && spoken(items).at(-1) === "The file is copied.", items);
    holds(readFileSync(join(folder, "out.txt"), "utf8") === "the secret is 4711", folder);
  },
  "a stream that breaks is a failed turn, not an empty answer": async () => {
    for (const model of ["broken", "cut"]) {
      const { kinds, items } = await codex(model, "Hello there", scratch());
      holds(kinds.includes("turn.failed") && !kinds.includes("turn.completed"), { kinds, items });
    }
  },
});
