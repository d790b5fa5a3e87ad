/** @file `GET /v1/status/events`: load, model servers, cache, limits and the last requests, as they change. */

import { asGatewayError, store } from "../conversation.js";
import { readData, readFrames } from "../event_stream.js";
import { send } from "../gateway.js";
import { describeFailure, nameFailure } from "../failures.js";
import { html, useEffect, useState } from "../html.js";
import { useStore } from "../store.js";
import { currentLanguage, number, t } from "../texts.js";
import { AdminProblem, Place } from "./problem.js";
import { Badge, Table } from "./table.js";
import { UsedLimit } from "./used_limit.js";

const RETRY_MS = 3000;

export function StatusView() {
  const [status, setStatus] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {import("../gateway.js").GatewayError | null} */ (null));
  const [paused, setPaused] = useState(false);
  const { key } = useStore(store);
  const hidden = useHidden();
  useEffect(() => {
    if (paused || hidden) return undefined;
    const leaving = new AbortController();
    const show = (/** @type {any} */ next) => {
      setStatus(next);
      setError(null);
    };
    followStatus(leaving.signal, show, setError);
    return () => leaving.abort();
  }, [paused, hidden, key]);
  return html`
    <div class="label-row"><h1>${t("status")}</h1>
      <button type="button" aria-pressed=${String(paused)} onClick=${() => setPaused(!paused)}>${t("pause")}</button></div>
    ${error && html`<${AdminProblem} error=${error} />`}
    ${status && html`
      <${Tiles} status=${status} />
      <${Upstreams} rows=${status.upstreams} />
      ${status.mcp_servers.length > 0 && html`<${ToolServers} rows=${status.mcp_servers} />`}
      <${Limits} rows=${status.limits} />
      <${Requests} rows=${status.requests} />`}`;
}

/** Whether the page is in a hidden tab, which needs no status. */
function useHidden() {
  const [hidden, setHidden] = useState(document.hidden);
  useEffect(() => {
    const update = () => setHidden(document.hidden);
    document.addEventListener("visibilitychange", update);
    return () => document.removeEventListener("visibilitychange", update);
  }, []);
  return hidden;
}

/**
 * Pass each status on that the gateway sends, and connect again when the stream has ended, until `signal` aborts.
 * @param {AbortSignal} signal
 * @param {(status: any) => void} onStatus
 * @param {(error: import("../gateway.js").GatewayError) => void} onError
 */
async function followStatus(signal, onStatus, onError) {
  while (!signal.aborted) {
    try {
      const { body } = await send("GET", "v1/status/events", { signal });
      if (body) for await (const frame of readFrames(body)) onStatus(JSON.parse(readData(frame)));
    } catch (thrown) {
      if (!signal.aborted) onError(asGatewayError(thrown));
    }
    if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

/** @param {{status: any}} props */
function Tiles({ status }) {
  const { load, cache } = status;
  const hits = (cache?.requests.hit ?? 0) + (cache?.requests.shared ?? 0);
  const all = Object.values(cache?.requests ?? {}).reduce((sum, one) => sum + one, 0);
  /** @type {[string, string, string][]} */
  const tiles = [
    [t("inProgress"), number(load.in_progress), t("ofMost", { most: number(load.max_concurrent) })],
    [t("queued"), number(load.queued), ""],
    [t("storedReplies"), cache ? number(cache.entries) : "–", cache ? formatBytes(cache.bytes) : status.cache_error],
    [t("cacheHits"), all ? `${number((hits / all) * 100)} %` : "–", t("ofReplies", { count: number(all) })],
  ];
  return html`<dl class="tiles wide">${tiles.map(([name, value, more]) => html`<div><dt>${name}</dt><dd>${value} <small>${more}</small></dd></div>`)}</dl>
    ${status.draining && html`<p class="problem">${t("draining")}</p>`}`;
}

/** @param {{rows: any[]}} props */
function Upstreams({ rows }) {
  const head = ["upstream", "state", "outstanding", "firstTokenTimes", "lastFault", "models"].map((key) => t(key));
  const cells = rows.map((row) => [
    html`<b>${row.name}</b><br /><small class="muted">${row.address}</small>`,
    html`<${Badge} state=${upstreamState(row)}
        text=${upstreamState(row) === "unknown" ? t("neverAnswered") : row.available ? t("available") : t(`breaker_${row.breaker}`)} />
      ${row.open_seconds > 0 && html`<br /><small>${t("secondsLeft", { count: number(row.open_seconds) })}</small>`}
      ${row.cooldown_seconds > 0 && html`<br /><small>${t("cooldown", { count: number(row.cooldown_seconds) })}</small>`}
      ${!row.healthy && html`<br /><small>${t("unhealthy")}</small>`}`,
    number(row.outstanding),
    row.first_token_ms
      ? html`${number(row.first_token_ms.p50)} / ${number(row.first_token_ms.p95)} ms`
      : "–",
    row.last_fault
      ? html`<${LastFault} fault=${row.last_fault} />`
      : "–",
    row.models.map((/** @type {any} */ use) => use.model).join(", ") || "–",
  ]);
  return html`<${Table} caption=${t("upstreams")} head=${head} rows=${cells} empty=${t("noUpstreams")} />`;
}

/** What went wrong, whose fault it was, the status of the server, and how long ago. @param {{fault: any}} props */
function LastFault({ fault }) {
  const { code, cause, status, age_seconds: age } = fault;
  const { title, place } = describeFailure({ code, upstream: { cause } }, store.get().gateway.responsible);
  return html`${title} ${place && html`<${Place} place=${place} />`}
    <small class="muted facts"><code>${code}</code>${cause && html`<code>${cause}</code>`}
      ${status !== null && html`<span>HTTP ${status}</span>`}<span>${t("secondsAgo", { count: number(age) })}</span></small>`;
}

/** @type {Record<string, import("./table.js").State>} */
const TOOL_SERVER_STATES = { idle: "unknown", starting: "unknown", up: "good", down: "bad" };

/** The servers of tools that the gateway runs. @param {{rows: any[]}} props */
function ToolServers({ rows }) {
  const head = ["toolServer", "state", "calls", "starts", "tools"].map((key) => t(key));
  const cells = rows.map(({ name, state, error, tools, calls, starts }) => [
    html`<b>${name}</b>`,
    html`<${Badge} state=${TOOL_SERVER_STATES[state] ?? "unknown"} text=${t(`server_${state}`)} />
      ${error && html`<br /><small>${error}</small>`}`,
    number(calls),
    number(starts),
    tools.length ? html`<span class="facts">${tools.map((/** @type {string} */ tool) => html`<code>${tool}</code>`)}</span>` : "–",
  ]);
  return html`<${Table} caption=${t("servers")} head=${head} rows=${cells} empty="" />`;
}

/** @param {string} owner `the gateway`, `the model 'qwen3'` or `the API key 'alice'` */
function limitOwner(owner) {
  const [, kind, name] = /^the (gateway|model|team|API key|JWT caller)(?: '(.*)')?$/s.exec(owner) ?? [];
  return kind ? t(`owner_${kind.replace(" ", "")}`, { name: name ?? "" }) : owner;
}

/** @param {{rows: any[]}} props */
function Limits({ rows }) {
  const head = ["limitOf", "limit", "used"].map((key) => t(key));
  const cells = rows.map(({ owner, kind, limit, used }) => [
    limitOwner(owner),
    t(`limit_${kind}`),
    html`<${UsedLimit} owner=${owner} kind=${kind} limit=${limit} used=${used} />`,
  ]);
  return html`<${Table} caption=${t("limits")} head=${head} rows=${cells} empty=${t("noLimits")} />`;
}

/** @param {{rows: any[]}} props */
function Requests({ rows }) {
  const head = ["time", "model", "state", "cache", "firstToken", "total", "tokens", "cost", "upstreamAttempts", "requestId"].map((key) => t(key));
  const locale = currentLanguage() === "zh" ? "zh-CN" : "en-GB";
  const cells = rows.map((row) => [
    html`<time>${new Date(row.ended_at * 1000).toLocaleTimeString(locale)}</time>`,
    html`${row.model || "–"}<br /><small class="muted">${row.endpoint}${row.key && ` · ${row.key}`}</small>`,
    html`<${Outcome} row=${row} />`,
    row.cache || "–",
    row.first_token_ms === null ? "–" : `${number(row.first_token_ms)}\u00a0ms`,
    `${number(row.milliseconds)}\u00a0ms`,
    row.input_tokens === null ? "–" : `${number(row.input_tokens)} + ${number(row.output_tokens)}`,
    row.cost === null ? "–" : number(row.cost, 6),
    row.attempts.length ? row.attempts.map((/** @type {string} */ one) => html`<span class="attempt">${one}</span>`) : "–",
    html`<code>${row.request_id}</code>`,
  ]);
  return html`<${Table} caption=${t("recentRequests")} head=${head} rows=${cells} empty=${t("noRequests")} />`;
}

/** The codes of requests that their own callers ended. */
const ENDED_BY_CALLER = ["cancelled", "caller_gone"];

/** How a request ended; a failure with whose fault it was. @param {{row: any}} props */
function Outcome({ row }) {
  const { error, responsible, error_from_upstream: fromUpstream, status } = row;
  if (!error) return html`<${Badge} state="good" text=${row.finish_reason ?? t("state_finished")} />`;
  const ended = ENDED_BY_CALLER.includes(error);
  const title = nameFailure(error, fromUpstream, responsible);
  return html`<${Badge} state=${ended ? "unknown" : "bad"} text=${title ?? error} />
    ${!ended && html` <${Place} place=${responsible} />`}
    <small class="muted facts"><code>${error}</code>${status > 0 && html`<span>HTTP ${status}</span>`}</small>`;
}

/** A server that has never answered is not known to work. @param {any} row @returns {import("./table.js").State} */
function upstreamState(row) {
  if (!row.available) return "bad";
  return row.first_token_ms ? "good" : "unknown";
}

/** @param {number} bytes */
function formatBytes(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  const units = ["KB", "MB", "GB"];
  const power = Math.min(Math.floor(Math.log2(bytes) / 10), 3);
  return `${number(bytes / 1024 ** power, 1)} ${units[power - 1]}`;
}
