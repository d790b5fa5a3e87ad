// Vercel's AI SDK with its OpenAI-compatible provider.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { checks } from "./ai_checks.mjs";
import { KEY, V1, run } from "./checks.mjs";

const provider = createOpenAICompatible({
  name: "parley",
  baseURL: V1,
  apiKey: KEY,
  includeUsage: true,
  supportsStructuredOutputs: true,
});

await run("ai", checks(provider("demo")));
