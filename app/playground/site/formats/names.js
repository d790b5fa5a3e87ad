/** @file The formats of `POST /v1/chat`. */

/** @type {Record<string, string>} */
export const FORMATS = {
  qwen: "Qwen-Agent",
  openai: "OpenAI Chat Completions",
  responses: "OpenAI Responses",
  anthropic: "Anthropic Messages",
  autogen: "AutoGen",
  agentscope: "AgentScope 1.x",
  agentscope2: "AgentScope 2.x",
};
