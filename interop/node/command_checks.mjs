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

/** Run a program of `node_modules/.bin`. Resolves to its status, its output, and the end of what it says of errors. */
export function runProgram(name, words, folder, environment) {
  const program = new URL(`./node_modules/.bin/${name}`, import.meta.url).pathname;
  const env = { PATH: process.env.PATH, HOME: folder, ...environment };
  return new Promise((resolve) => {
    const child = spawn(program, words, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
    const timer = setTimeout(() => child.kill(), 120_000);
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
