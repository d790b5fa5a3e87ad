/** @file Requests to the gateway that served this page. Its address is relative, so a proxy may add a prefix. */

const BASE = new URL("../", import.meta.url);
const STORED_KEY = "parley-api-key";

/** An error response of the gateway, or no response at all (`status` 0). */
export class GatewayError extends Error {
  /**
   * @param {number} status
   * @param {Record<string, any>} error the `error` of the body
   */
  constructor(status, error) {
    super(error.message ?? String(status));
    this.status = status;
    /** @type {string} */
    this.code = error.code ?? error.type ?? "";
    this.retryable = Boolean(error.retryable);
    /** @type {string | undefined} */
    this.requestId = error.request_id;
    /** @type {Record<string, any> | undefined} */
    this.upstream = error.upstream;
    /** @type {{param: string | null, message: string}[]} */
    this.violations = error.violations ?? [{ param: error.param ?? null, message: this.message }];
  }
}

/** The API key lives as long as the tab: it is never written to the disk. */
export const readKey = () => sessionStorage.getItem(STORED_KEY) ?? "";

/** @param {string} key */
export function storeKey(key) {
  if (key) sessionStorage.setItem(STORED_KEY, key);
  else sessionStorage.removeItem(STORED_KEY);
}

/** @param {string} path without a slash at its begin */
export const address = (path) => new URL(path, BASE).href;

/**
 * Send a request and return its response. Throws GatewayError.
 * @param {string} method
 * @param {string} path
 * @param {{body?: unknown, signal?: AbortSignal}} [options]
 */
export async function send(method, path, { body, signal } = {}) {
  /** @type {Record<string, string>} */
  const headers = {};
  const key = readKey();
  if (key) headers.authorization = `Bearer ${key}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const init = { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) };
  let response;
  try {
    response = await fetch(address(path), init);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new GatewayError(0, { code: "unreachable", message: String(error), retryable: true });
  }
  if (!response.ok) throw await readError(response);
  return response;
}

/**
 * Send a request and return the JSON of its response. Throws GatewayError.
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
export async function sendJson(method, path, body) {
  return (await send(method, path, { body })).json();
}

/** @param {Response} response */
async function readError(response) {
  const text = await response.text();
  try {
    return new GatewayError(response.status, JSON.parse(text).error ?? {});
  } catch {
    return new GatewayError(response.status, { message: `${response.status} ${text.slice(0, 300)}` });
  }
}
