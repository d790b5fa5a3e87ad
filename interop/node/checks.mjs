// Named checks of one client package; each is written as a line of JSON.
import { readFileSync } from "node:fs";

export const V1 = `${process.env.PARLEY_URL}/v1`;
export const KEY = "not-needed";
export const QUESTION = "What is the weather in Paris and in Tokyo?";
export const weather = (city) => `It is 21 degrees in ${city}.`;

export function holds(value, found) {
  if (!value) throw new Error(`found: ${JSON.stringify(found)}`);
}

/** Run the act, and return the error of this kind that it must throw. */
export async function rejects(kind, act) {
  try {
    await act();
  } catch (error) {
    holds(error instanceof kind, `${error?.constructor?.name}: ${error}`);
    return error;
  }
  throw new Error(`no ${kind.name}`);
}

export async function run(client, checks) {
  const { version } = JSON.parse(readFileSync(new URL(`./node_modules/${client}/package.json`, import.meta.url)));
  for (const [check, act] of Object.entries(checks)) {
    const line = { client, version, check, ok: true, detail: "" };
    try {
      await act();
    } catch (error) {
      Object.assign(line, { ok: false, detail: `${error?.constructor?.name}: ${error?.message}`.slice(0, 900) });
    }
    console.log(`\n${JSON.stringify(line)}`);
  }
}
