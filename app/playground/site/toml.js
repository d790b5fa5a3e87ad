/** @file The lines of `parley.toml` that connect a model server. */

/**
 * @typedef {object} Connection
 * @property {string} name of the upstream
 * @property {string} baseUrl
 * @property {string} kind
 * @property {boolean} hasKey
 * @property {string} model the server's name of the model; empty: all names pass through
 * @property {string} alias the name that callers use
 */

/** @param {string} text */
const quote = (text) => JSON.stringify(text).replaceAll("\u007f", "\\u007f");
/** @param {string} text */
const key = (text) => (/^[A-Za-z0-9_-]+$/.test(text) ? text : quote(text));
/** @param {string} name */
export const keyVariable = (name) => `${name.toUpperCase().replace(/[^A-Z0-9]+/g, "_") || "SERVER"}_API_KEY`;

/** @param {Connection} connection */
export function writeToml({ name, baseUrl, kind, hasKey, model, alias }) {
  const upstream = name || "server";
  const lines = [`[upstreams.${key(upstream)}]`, `base_url = ${quote(baseUrl)}`];
  if (kind !== "openai_compatible") lines.push(`kind = ${quote(kind)}`);
  if (hasKey) lines.push(`api_key = "\${${keyVariable(upstream)}}"`);
  if (!model) return [`passthrough = ${quote(upstream)}`, "", ...lines, ""].join("\n");
  const called = alias || model;
  lines.push("", `[models.${key(called)}]`, `upstreams = [${quote(upstream)}]`);
  if (called !== model) lines.push(`name = ${quote(model)}`);
  return [`default_model = ${quote(called)}`, "", ...lines, ""].join("\n");
}
