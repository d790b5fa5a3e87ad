/** @file The lines of `parley.toml` that connect a model server, and the command that does the same. */

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

/** @param {string} text */
const quoteShell = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/**
 * Return the command that starts the gateway with this server, for bash and zsh. It asks for the key, so that the history of
 * the shell does not have it. It is one command: of several lines that are pasted, `read` would take the next.
 * @param {Connection} connection
 * @param {string} command the gateway's own, such as `.venv/bin/parley`
 */
export function writeShell({ baseUrl, kind, hasKey }, command) {
  const variables = [`PARLEY_UPSTREAM_URL=${quoteShell(baseUrl)}`];
  if (kind !== "openai_compatible") variables.push(`PARLEY_UPSTREAM_KIND=${kind}`);
  const serve = `${variables.join(" ")} ${command} serve`;
  if (!hasKey) return serve;
  return `printf 'Key of the server: '; read -rs PARLEY_UPSTREAM_API_KEY && echo && export PARLEY_UPSTREAM_API_KEY && \\\n  ${serve}`;
}
