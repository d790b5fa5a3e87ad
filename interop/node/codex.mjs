// Codex's command line, without its screen: it reads a file and writes another one. A scripted model plays along.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { V1, holds, run } from "./checks.mjs";
import { askToCopy, holdsCopy, makeFolder, runProgram } from "./command_checks.mjs";

async function codex(model, prompt, folder) {
  const home = join(folder, "home");
  mkdirSync(home);
  const provider = { name: "Parley", base_url: V1, wire_api: "responses", env_key: "PARLEY_KEY" };
  const settings = Object.entries({ ...provider, request_max_retries: 0, stream_max_retries: 0 });
  const lines = settings.map(([key, value]) => `${key} = ${JSON.stringify(value)}`).join("\n");
  const head = `model = "${model}"\nmodel_provider = "parley"\napproval_policy = "never"\n`;
  writeFileSync(join(home, "config.toml"), `${head}\n[model_providers.parley]\n${lines}\n`);
  const environment = { CODEX_HOME: home, PARLEY_KEY: "not-needed" };
  const words = ["exec", "--json", "--skip-git-repo-check", "--sandbox", "danger-full-access", prompt];
  const { status, out, errors } = await runProgram("codex", words, folder, environment);
  const events = out.split("\n").filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
  const items = events.filter((event) => event.type === "item.completed").map((event) => event.item);
  return { status, kinds: events.map((event) => event.type), items, errors };
}

const getTexts = (items) => items.filter((item) => item.type === "agent_message").map((item) => item.text);

await run("@openai/codex", {
  "a question is answered": async () => {
    const { status, kinds, items, errors } = await codex("demo", "Hello there", makeFolder("codex-"));
    holds(status === 0 && kinds.includes("turn.completed") && getTexts(items).join(""), { status, kinds, items, errors });
  },
  "a task with two calls: a file is read, another one written, and the task ends well": async () => {
    const folder = makeFolder("codex-");
    const { status, kinds, items, errors } = await codex("coder", askToCopy(folder), folder);
    const commands = items.filter((item) => item.type === "command_execution");
    holds(status === 0 && kinds.includes("turn.completed"), { status, kinds, items, errors });
    holds(commands.length === 2 && getTexts(items).at(-1) === "The file is copied.", items);
    holdsCopy(folder);
  },
  "a stream that breaks is a failed turn, not an empty answer": async () => {
    for (const model of ["broken", "cut"]) {
      const { kinds, items } = await codex(model, "Hello there", makeFolder("codex-"));
      holds(kinds.includes("turn.failed") && !kinds.includes("turn.completed"), { kinds, items });
    }
  },
});
