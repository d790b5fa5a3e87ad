/** @file The request log: a list with filters, and one request with its messages, bodies and attempts. */

import { asGatewayError, setMessages, setOptions, store } from "../conversation.js";
import { saveResponse } from "../downloads.js";
import { describe, findCalls, nameResult } from "../formats/describe.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { deleteRequest, EXPORTS, exportRequest, findBody, findChanged, foldLines, PAGE_SIZE, readConversation, readRequest, readRequests, writeLines } from "../requests.js";
import { useStore } from "../store.js";
import { dateTime, number, t } from "../texts.js";
import { Field, Select, Tabs } from "./controls.js";
import { Guard } from "./guard.js";
import { PartView } from "./parts.js";
import { AdminProblem } from "./problem.js";
import { Badge, Table } from "./table.js";

/** @typedef {import("../requests.js").LoggedRequest} LoggedRequest */
/** @typedef {import("../requests.js").LoggedBody} LoggedBody */

const FILTERS = ["key", "model", "error", "request_id"];
const MAX_SHOWN = 200_000;

export function RequestsView() {
  const { key } = useStore(store);
  const [filters, setFilters] = useState(/** @type {Record<string, string>} */ ({}));
  const [rows, setRows] = useState(/** @type {LoggedRequest[] | null} */ (null));
  const [next, setNext] = useState(/** @type {string | null} */ (null));
  const [entry, setEntry] = useState(/** @type {LoggedRequest | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const opened = useRef("");
  const [reloads, setReloads] = useState(0);
  const fail = (/** @type {unknown} */ thrown) => setError(asGatewayError(thrown));
  useEffect(() => {
    const leaving = new AbortController();
    readRequests(filters, leaving.signal)
      .then((page) => (setRows(page.data), setNext(page.next), setError(null)))
      .catch((thrown) => leaving.signal.aborted || (setRows(null), fail(thrown)));
    return () => leaving.abort();
  }, [filters, key, reloads]);
  useEffect(() => setEntry(null), [key]);
  const showMore = async () => {
    try {
      const page = await readRequests({ ...filters, before: next ?? "" });
      setRows([...(rows ?? []), ...page.data]);
      setNext(page.next);
    } catch (thrown) {
      fail(thrown);
    }
  };
  const open = (/** @type {string} */ id) => readRequest(id).then((found) => ((opened.current = id), setEntry(found), setError(null))).catch(fail);
  const close = () => setEntry(null);
  const remove = (/** @type {string} */ id) => deleteRequest(id).then(() => (close(), setReloads(reloads + 1))).catch(fail);
  if (entry) return html`${error && html`<${AdminProblem} error=${error} />`}
    <${Entry} key=${entry.id} entry=${entry} onClose=${close} onDelete=${() => remove(entry.id)} onError=${fail} />`;
  const setFilter = (/** @type {string} */ name) => (/** @type {string} */ value) => setFilters({ ...filters, [name]: value });
  return html`
    <div class="label-row"><h1>${t("requests")}</h1><button type="button" onClick=${() => setReloads(reloads + 1)}>${t("reload")}</button></div>
    <p class="muted">${t("requestsText")}</p>
    <div class="filters">
      <${Select} label=${t("outcome")} value=${filters.failed ?? ""} onChange=${setFilter("failed")}
        options=${[["", t("outcome_all")], ["true", t("outcome_failed")], ["false", t("outcome_completed")]]} />
      ${FILTERS.map((name) => html`<${Field} label=${t(`filter_${name}`)} value=${filters[name] ?? ""} onInput=${setFilter(name)} />`)}
    </div>
    ${error && html`<${AdminProblem} error=${error} />`}
    ${rows && html`<${List} rows=${rows} focused=${opened.current} onOpen=${open} />
      ${next && html`<p><button type="button" onClick=${showMore}>${t("showMore", { count: PAGE_SIZE })}</button></p>`}`}`;
}

/** @param {{rows: LoggedRequest[], focused: string, onOpen: (id: string) => void}} props `focused`: the request that was shown before */
function List({ rows, focused, onOpen }) {
  useEffect(() => document.getElementById(`request-${focused}`)?.focus(), []);
  const head = ["time", "model", "state", "cache", "total", "tokens", "cost", "requestId"].map((key) => t(key));
  const cells = rows.map((row) => [
    html`<button type="button" class="name" id=${`request-${row.id}`} onClick=${() => onOpen(row.id)}>${dateTime(new Date(row.started_at * 1000).toISOString())}</button>`,
    html`${row.model || row.requested_model || "–"}<br /><small class="muted">${row.endpoint}${row.key && ` · ${row.key}`}</small>`,
    html`<${Outcome} row=${row} />`,
    row.cache || "–",
    `${number(row.seconds * 1000)}\u00a0ms`,
    row.tokens ? `${number(row.tokens.input)} + ${number(row.tokens.output)}` : "–",
    typeof row.cost === "number" ? number(row.cost, 6) : "–",
    html`<code>${row.request_id}</code>`,
  ]);
  return html`<${Table} caption=${t("requestList")} head=${head} rows=${cells} empty=${t("noLoggedRequests")} />`;
}

/** @param {{row: LoggedRequest}} props */
function Outcome({ row }) {
  if (!row.error) return html`<${Badge} state="good" text=${row.finish_reason ?? t("state_finished")} />`;
  return html`<${Badge} state=${row.error === "caller_gone" ? "unknown" : "bad"} text=${row.error} />
    <small class="muted facts">${row.status > 0 && html`<span>HTTP ${row.status}</span>`}</small>`;
}

/** @param {{entry: LoggedRequest, onClose: () => void, onDelete: () => void, onError: (error: unknown) => void}} props */
function Entry({ entry, onClose, onDelete, onError }) {
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  const [form, setForm] = useState("report");
  const [asksDeletion, setAsksDeletion] = useState(false);
  useEffect(() => heading.current?.focus(), []);
  const conversation = readConversation(entry);
  const openInChat = () => {
    if (!conversation) return;
    setOptions({ format: conversation.format, functions: conversation.functions, model: entry.requested_model || entry.model });
    setMessages(conversation.messages);
    location.hash = "chat";
  };
  const save = () => exportRequest(entry.id, form).then(saveResponse).catch(onError);
  const tabs = [
    { id: "figures", text: t("figures"), body: () => html`<${Figures} entry=${entry} />` },
    { id: "messages", text: t("messages"), body: () => html`<${Messages} messages=${conversation?.messages ?? null} />` },
    { id: "compared", text: t("compared"), body: () => html`<${Compared} entry=${entry} />` },
    { id: "bodies", text: t("bodies"), body: () => html`<${Bodies} bodies=${entry.parts ?? []} />` },
  ];
  return html`
    <div class="label-row"><h1 tabindex="-1" ref=${heading}>${t("requestOf", { model: entry.model || entry.requested_model || "–" })}</h1>
      <button type="button" onClick=${onClose}>${t("backToList")}</button></div>
    <p class="facts"><${Outcome} row=${entry} /><code>${entry.request_id}</code></p>
    <div class="buttons">
      <button type="button" class="primary" disabled=${!conversation} onClick=${openInChat}>${t("openInChat")}</button>
      <${Select} label=${t("exportAs")} hidesLabel value=${form} options=${EXPORTS.map((name) => [name, t(`export_${name}`)])} onChange=${setForm} />
      <button type="button" onClick=${save}>${t("export")}</button>
      ${asksDeletion
        ? html`<button type="button" class="danger" onClick=${onDelete}>${t("deleteNow")}</button>
            <button type="button" onClick=${() => setAsksDeletion(false)}>${t("cancel")}</button>`
        : html`<button type="button" onClick=${() => setAsksDeletion(true)}>${t("deleteRequest")}</button>`}
    </div>
    <p class="muted">${t("exportText")}</p>
    <section class="table"><${Tabs} label=${t("details")} tabs=${tabs} /></section>`;
}

/** @param {{entry: LoggedRequest}} props */
function Figures({ entry }) {
  const seconds = (/** @type {number | null | undefined} */ value) => (typeof value === "number" ? `${number(value * 1000, 1)} ms` : null);
  /** @type {[string, any][]} */
  const rows = [
    [t("time"), dateTime(new Date(entry.started_at * 1000).toISOString())],
    [t("filter_endpoint"), html`<code>${entry.endpoint}</code>`],
    [t("filter_key"), entry.key],
    [t("filter_team"), entry.team],
    [t("endUser"), entry.user],
    [t("requestedModel"), entry.requested_model],
    [t("filter_model"), entry.fallback_model ?? entry.model],
    [t("route"), entry.route && html`<code>${entry.route}</code>`],
    [t("cacheState"), entry.cache && html`<code>${entry.cache}</code>`],
    [t("finishReason"), entry.finish_reason && html`<code>${entry.finish_reason}</code>`],
    [t("firstToken"), seconds(entry.first_token_seconds)],
    [t("ownTime"), seconds(entry.overhead_seconds)],
    [t("total"), seconds(entry.seconds)],
    [t("inputTokens"), entry.tokens && number(entry.tokens.input)],
    [t("outputTokens"), entry.tokens && number(entry.tokens.output)],
    [t("cost"), typeof entry.cost === "number" ? number(entry.cost, 6) : null],
    [t("warnings"), entry.warnings.length ? html`<ul>${entry.warnings.map((/** @type {string} */ one) => html`<li>${one}</li>`)}</ul>` : null],
  ];
  const head = ["upstream", "state", "total", "model", "why"].map((key) => t(key));
  const cells = entry.attempts.map((/** @type {any} */ one) => [
    html`<b>${one.upstream}</b>`,
    html`<${Badge} state=${one.outcome === "ok" ? "good" : "bad"} text=${one.outcome} /> ${one.status ? `HTTP ${one.status}` : ""}`,
    `${number(one.milliseconds)}\u00a0ms`,
    one.model ?? entry.model,
    one.reason ?? "–",
  ]);
  return html`<dl class="rows">${rows.filter(([, value]) => value).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    <${Table} caption=${t("upstreamAttempts")} head=${head} rows=${cells} empty=${t("noAttempts")} />`;
}

/** @param {{messages: any[] | null}} props */
function Messages({ messages }) {
  if (!messages) return html`<p class="muted">${t("noBody")}</p>`;
  const calls = findCalls(messages);
  return html`<div class="messages">${messages.map((message, index) => {
    const { role, parts } = describe(message);
    return html`<article class=${`message ${role}`} aria-label=${t("messageOf", { number: index + 1, role: t(role) })}>
      <header><h2>${t(role)}</h2></header>
      <${Guard} source=${message}>${parts.map((part) => html`<${PartView} part=${nameResult(part, calls)} role=${role} />`)}<//>
    </article>`;
  })}</div>`;
}

/** What the client sent beside what the last model server got. @param {{entry: LoggedRequest}} props */
function Compared({ entry }) {
  const [sent, got] = [findBody(entry, "client_request"), findBody(entry, "upstream_request")];
  if (!sent?.text || !got?.text) return html`<p class="muted">${t("noComparison")}</p>`;
  const [before, after] = [sent, got].map((body) => writeLines(body.text).split("\n"));
  const [removed, added] = findChanged(before, after);
  return html`<p class="muted">${t("comparedText")}</p><div class="sides">
    <section aria-label=${t("body_client_request")}><h2>${t("body_client_request")}</h2><${Lines} lines=${before} changed=${removed} mark="−" label=${t("body_client_request")} /></section>
    <section aria-label=${t("body_upstream_request")}><h2>${t("body_upstream_request")}</h2><${Lines} lines=${after} changed=${added} mark="+" label=${t("body_upstream_request")} /></section></div>`;
}

/** @param {{lines: string[], changed: boolean[], mark: string, label: string}} props */
function Lines({ lines, changed, mark, label }) {
  return html`<pre class="lines" tabindex="0" aria-label=${label}>${foldLines(changed).map((at) => {
    // In expressions, because the template leaves out the line ends of its own text.
    if (typeof at === "object") return html`<i>${`  … ${t("linesLeftOut", { count: number(at.left) })}\n`}</i>`;
    return changed[at] ? html`<mark>${`${mark} ${lines[at]}\n`}</mark>` : html`<span>${`  ${lines[at]}\n`}</span>`;
  })}</pre>`;
}

/** @param {{bodies: LoggedBody[]}} props */
function Bodies({ bodies }) {
  return bodies.map((body) => html`<details class="more" open=${bodies.length <= 4}>
    <summary>${t(`body_${body.kind}`)}${body.upstream && ` · ${body.upstream}`}${body.status > 0 && ` · HTTP ${body.status}`} · ${t("byteCount", { count: number(body.size) })}</summary>
    ${body.is_cut && html`<p class="notices">${t("bodyIsCut")}</p>`}
    ${body.end === "cut" && html`<p class="notices">${t("bodyBroke")}</p>`}
    ${body.headers.length > 0 && html`<p class="facts">${body.headers.map(([name, value]) => html`<code>${name}: ${value}</code>`)}</p>`}
    ${body.parts.length > 0 && html`<p class="muted">${t("readCount", { count: number(body.parts.length), first: number(body.parts[0][0]), last: number(body.parts[body.parts.length - 1][0]) })}</p>`}
    ${body.text.length > MAX_SHOWN && html`<p class="notices">${t("bodyShownTo", { count: number(MAX_SHOWN) })}</p>`}
    ${body.text ? html`<pre tabindex="0" aria-label=${t(`body_${body.kind}`)}>${body.text.slice(0, MAX_SHOWN)}</pre>` : html`<p class="muted">${t("noBody")}</p>`}
  </details>`);
}
