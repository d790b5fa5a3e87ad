// Codex's command line, without its screen: it reads files and writes another one. A scripted model plays along.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { V1, holds, run } from "./checks.mjs";
import { askToCopy, holdsCopy, makeFolder, runProgram } from "./command_checks.mjs";

const WINDOW = "model_context_window = 32768\nmodel_auto_compact_token_limit = 26000\n";

async function codex(model, prompt, folder, more = {}) {
  const home = join(folder, "home");
  mkdirSync(home);
  const provider = { name: "Parley", base_url: V1, wire_api: "responses", env_key: "PARLEY_KEY" };
  const settings = Object.entries({ ...provider, request_max_retries: 0, stream_max_retries: 0, ...more });
  const lines = settings.map(([key, value]) => `${key} = ${JSON.stringify(value)}`).join("\n");
  const head = `model = "${model}"\nmodel_provider = "parley"\napproval_policy = "never"\n${WINDOW}`;
  writeFileSync(join(home, "config.toml"), `${head}\n[model_providers.parley]\n${lines}\n`);
  const environment = { CODEX_HOME: home, PARLEY_KEY: "not-needed" };
  const words = ["exec", "--json", "--skip-git-repo-check", "--sandbox", "danger-full-access", prompt];
  const { status, out, errors } = await runProgram("codex", words, folder, environment);
  const events = out.split("\n").filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
  const items = events.filter((event) => event.type === "item.completed").map((event) => event.item);
  return { status, kinds: events.map((event) => event.type), events, items, errors };
}

const getTexts = (items) => items.filter((item) => item.type === "agent_message").map((item) => item.text);

function holdsAnswer({ status, kinds, items, errors }, text) {
  holds(status === 0 && kinds.includes("turn.completed"), { status, kinds, items, errors });
  holds(getTexts(items).at(-1) === text, items);
}

function holdsFailure({ kinds, events, items }, words) {
  holds(kinds.includes("turn.failed") && !kinds.includes("turn.completed"), { kinds, items });
  const { message } = events.find((event) => event.type === "turn.failed").error;
  holds(words.test(message), message);
}

const ask = (model, more) => codex(model, `Hello there, ${model}`, makeFolder("codex-"), more);

await run("@openai/codex", {
  "a question is answered": async () => {
    const { status, kinds, items, errors } = await codex("demo", "Hello there", makeFolder("codex-"));
    holds(status === 0 && kinds.includes("turn.completed") && getTexts(items).join(""), { status, kinds, items, errors });
  },
  "a task with parallel calls: two files are read, another one written, and the task ends well": async () => {
    const folder = makeFolder("codex-");
    const done = await codex("coder", askToCopy(folder), folder);
    holdsAnswer(done, "The file is copied.");
    holds(done.items.filter((item) => item.type === "command_execution").length === 3, done.items);
    holdsCopy(folder);
  },
  "the same task with the tools in an item of the input, as for models that it knows": async () => {
    const folder = makeFolder("codex-");
    holdsAnswer(await codex("gpt-6.2-sol", askToCopy(folder), folder), "The file is copied.");
    holdsCopy(folder);
  },
  "a model server that is silent for ten seconds is waited for, with a limit of four": async () => {
    holdsAnswer(await ask("silent", { stream_idle_timeout_ms: 4000 }), "All is well.");
  },
  "a stream that breaks is a failed turn, not an empty answer": async () => {
    for (const model of ["broken", "cut"]) {
      holdsFailure(await ask(model), /lost the plot|broke|ended|finished/);
    }
  },
  "a stream that breaks once, or begins with a failure, is asked for again": async () => {
    const retries = { request_max_retries: 2, stream_max_retries: 2 };
    for (const model of ["broken-once", "cut-once", "failing-once"]) {
      holdsAnswer(await ask(model, retries), "All is well.");
    }
  },
  "a server that is busy is a failed turn that says so: it does not repeat a 429": async () => {
    holdsFailure(await ask("busy"), /429|Too many requests/);
  },
  "a prompt that is too long is a failed turn that says so": async () => {
    holdsFailure(await ask("long"), /context window|context length/);
  },
});
