// A client of the types that openapi-typescript makes of openapi.json, and examples/typescript: compiled and run.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { holds, run } from "./checks.mjs";

const here = new URL("./", import.meta.url).pathname;
const { PARLEY_URL: url } = process.env;
const script = (command, ...args) => {
  try {
    return execFileSync(process.execPath, [`${here}node_modules/${command}`, ...args], { cwd: here, encoding: "utf8" });
  } catch (error) {
    throw new Error(`${error.stdout}${error.stderr}`.slice(0, 600));
  }
};
const compile = (...files) =>
  script("typescript/bin/tsc", "--strict", "--target", "es2022", "--module", "nodenext", "--outDir", "made", ...files);

// No field has to be given but those that the gateway demands.
const PROGRAM = `
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";
type Frame = components["schemas"]["ChatFrame"];
const client = createClient<paths>({ baseUrl: process.env.PARLEY_URL! });
const body = { model: "demo", messages: [{ role: "user" as const, content: "What is the weather in Paris?" }] };
const { data } = await client.POST("/v1/chat", { body: { ...body, stream: false } });
if (typeof data !== "object" || !("finish_reason" in data) || !("response_id" in data)) throw new Error("no reply");
const texts: (typeof data.messages)[number]["content"][] = data.messages.map((message) => message.content);
const streamed = await client.POST("/v1/chat", { body, parseAs: "text" });
let text = "";
for (const line of String(streamed.data).split("\\n").filter((line) => line.startsWith("data: "))) {
  const frame: Frame = JSON.parse(line.slice(6));
  if (frame.type === "message.delta") text += frame.delta.content ?? "";
  if (frame.type === "response.failed") throw new Error(frame.error.message);
}
const { error } = await client.POST("/v1/chat", { body: { ...body, model: "nobody" } });
const code = error && "error" in error && "code" in error.error ? error.error.code : "";
const completion = await client.POST("/v1/chat/completions", { body });
const models = await client.GET("/v1/models");
const converted = await client.POST("/v1/convert", { body: { from: "openai", to: "qwen", messages: body.messages } });
console.log(JSON.stringify({
  texts, text, code, completion: typeof completion.data === "object" && "choices" in completion.data,
  models: models.data?.data.map((model) => model.id), converted: converted.data?.messages,
}));
`;

await run("openapi-typescript", {
  "openapi-typescript makes types that tsc --strict accepts": async () => {
    const answer = await fetch(`${url}/openapi.json`);
    writeFileSync(`${here}openapi.json`, await answer.text());
    script("openapi-typescript/bin/cli.js", "openapi.json", "-o", "api.d.ts");
    script("typescript/bin/tsc", "--noEmit", "--strict", "api.d.ts");
  },
  "a program with openapi-fetch compiles: no field with a default is required, and `type` says which frame it is": () => {
    mkdirSync(`${here}made`, { recursive: true });
    writeFileSync(`${here}generated.mts`, PROGRAM);
    compile("generated.mts");
  },
  "it asks for a reply, a stream, a completion, the models, a conversion, and reads an error": () => {
    const found = JSON.parse(script("../made/generated.mjs"));
    holds(found.texts.at(-1) === found.text && found.text.length > 20, found);
    holds(found.code === "unknown_model" && found.completion && found.models.includes("demo"), found);
    holds(found.converted.length === 1, found);
  },
  "examples/typescript compiles with --strict, prints thought, text and call, and answers the call": () => {
    copyFileSync(`${here}../../examples/typescript/chat.mts`, `${here}chat.mts`);
    compile("chat.mts");
    const lines = script("../made/chat.mjs").trim().split("\n");
    const kinds = lines.map((line) => line.split(" ")[0]);
    const answered = ["[reasoning_content]", "[content]"];
    const wanted = [...answered, "[function_call]", "[result]", ...answered];
    holds(JSON.stringify(kinds) === JSON.stringify(wanted) && lines.at(-1).includes("21 °C in Paris"), lines);
  },
});
