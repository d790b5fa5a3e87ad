// Vercel's AI SDK with its Anthropic provider.
import { createAnthropic } from "@ai-sdk/anthropic";
import { checks } from "./ai_checks.mjs";
import { KEY, V1, run } from "./checks.mjs";

const provider = createAnthropic({ baseURL: V1, apiKey: KEY });

await run("ai", checks(provider("demo")));
