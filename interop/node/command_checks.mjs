// What the checks of command lines have in common: a folder with a file to copy, and a program that runs in it.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { holds } from "./checks.mjs";

const SECRET = "the secret is 4711";
const SECOND = "the second file";

export function makeFolder(prefix) {
  const folder = mkdtempSync(join(tmpdir(), prefix));
  writeFileSync(join(folder, "in.txt"), `${SECRET}\n`);
  writeFileSync(join(folder, "also.txt"), `${SECOND}\n`);
  return folder;
}

export const askToCopy = (folder) =>
  `Copy the file.\nFROM: ${join(folder, "in.txt")}\nALSO: ${join(folder, "also.txt")}\nTO: ${join(folder, "out.txt")}`;

export function holdsCopy(folder) {
  holds(readFileSync(join(folder, "out.txt"), "utf8") === SECRET, folder);
}

/**
 * Run a program of `node_modules/.bin`, with the package `node` if it is installed beside it. Resolves to its status, its
 * output, and the end of what it says of errors.
 */
export function runProgram(name, words, folder, environment) {
  const installed = new URL("./node_modules/", import.meta.url).pathname;
  const env = { PATH: `${installed}node/bin:${process.env.PATH}`, HOME: folder, ...environment };
  return new Promise((resolve) => {
    const child = spawn(`${installed}.bin/${name}`, words, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
    const timer = setTimeout(() => child.kill(), 180_000);
    let out = "";
    let errors = "";
    child.stdout.on("data", (data) => (out += data));
    child.stderr.on("data", (data) => (errors += data));
    child.on("close", (status) => {
      clearTimeout(timer);
      resolve({ status, out, errors: (errors || out).slice(-400) });
    });
  });
}

/** The objects of the lines of a text that are JSON objects. */
export const readObjects = (text) =>
  text.split("\n").filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));

/** The agent is asked with a model, a prompt and a folder, and resolves to `{ status, text, error }`. */
export async function holdsReply(agent, model, text = "All is well.") {
  const found = await agent(model, `Hello there, ${model}`, makeFolder("agent-"));
  holds(found.status === 0 && found.text?.includes(text), found);
}

/** Each of these models fails once. The agent sends the request again, and has the reply. */
export async function holdsReplies(agent, models) {
  for (const model of models) await holdsReply(agent, model);
}

/** The turn ends with an error that has these words, and not with an answer. */
export async function holdsError(agent, model, words) {
  const found = await agent(model, `Hello there, ${model}`, makeFolder("agent-"));
  holds(words.test(found.error ?? ""), found);
}

/** Two files are read with parallel calls, a third one is written, and the answer ends the task. */
export async function holdsTask(agent) {
  const folder = makeFolder("agent-");
  const found = await agent("coder", askToCopy(folder), folder);
  holds(found.status === 0 && found.text?.includes("The file is copied."), found);
  holdsCopy(folder);
}
