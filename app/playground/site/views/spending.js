/** @file `GET /v1/usage`: cost, requests and tokens by day, key, team, user, model or tag: a plot, a table, and CSV. */

import { asGatewayError, store } from "../conversation.js";
import { saveResponse } from "../downloads.js";
import { send } from "../gateway.js";
import { html, useEffect, useState } from "../html.js";
import { useStore } from "../store.js";
import { number, t } from "../texts.js";
import { Field, Select } from "./controls.js";
import { Problem } from "./problem.js";
import { Table } from "./table.js";
import { DayPlot, NamePlot } from "./usage_plot.js";

const GROUPS = ["day", "key", "team", "user", "model", "tag"];
const MEASURES = ["cost", "requests", "input_tokens", "output_tokens", "searches"];
const COLUMNS = ["requests", "errors", "cache_hits", "input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "saved_tokens", "searches", "fetches", "cost"];
const COST_DIGITS = 6;

/** @param {string} measure */
const digitsOf = (measure) => (measure === "cost" ? COST_DIGITS : 0);

/**
 * Empty days are the gateway's: the last 30. `only` are names of a key, a team, a user, a model or a tag, which may be empty.
 * @typedef {{from: string, to: string, group: string, only: Record<string, string>}} Query
 */

/** @param {Query} query @param {"json" | "csv"} format */
function usagePath({ from, to, group, only }, format) {
  const given = Object.entries({ from, to }).filter(([, day]) => day);
  return `v1/usage?${new URLSearchParams([...given, ...Object.entries(only), ["group_by", group], ["format", format]])}`;
}

export function SpendingView() {
  const { key } = useStore(store);
  const [query, setQuery] = useState(/** @type {Query} */ ({ from: "", to: "", group: "day", only: {} }));
  const [measure, setMeasure] = useState("cost");
  const [report, setReport] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  useEffect(() => {
    const leaving = new AbortController();
    send("GET", usagePath(query, "json"), { signal: leaving.signal })
      .then((response) => response.json())
      .then((found) => (setReport(found), setError(null)))
      .catch((thrown) => leaving.signal.aborted || (setReport(null), setError(asGatewayError(thrown))));
    return () => leaving.abort();
  }, [query, key]);
  const shown = { from: query.from || report?.from || "", to: query.to || report?.to || "" };
  const setDay = (/** @type {string} */ name) => (/** @type {string} */ value) => setQuery({ ...query, ...shown, [name]: value });
  const showOnly = (/** @type {string} */ kind, /** @type {string} */ name) => setQuery({ ...query, group: "day", only: { ...query.only, [kind]: name } });
  const download = () => downloadCsv(query).catch((thrown) => setError(asGatewayError(thrown)));
  return html`
    <div class="label-row"><h1>${t("spending")}</h1>
      <button type="button" disabled=${!report} onClick=${download}>${t("downloadCsv")}</button></div>
    <div class="filters">
      <${Field} label=${t("fromDay")} type="date" value=${shown.from} onInput=${setDay("from")} />
      <${Field} label=${t("toDay")} type="date" value=${shown.to} onInput=${setDay("to")} />
      <${Select} label=${t("groupBy")} value=${query.group} options=${GROUPS.map((name) => [name, t(`group_${name}`)])} onChange=${(/** @type {string} */ group) => setQuery({ ...query, group })} />
      <${Select} label=${t("measure")} value=${measure} options=${MEASURES.map((name) => [name, t(`usage_${name}`)])} onChange=${setMeasure} />
    </div>
    <${Only} names=${query.only} onChange=${(/** @type {Record<string, string>} */ only) => setQuery({ ...query, only })} />
    ${error && html`<${Problem} error=${error} />`}
    ${report && html`<${Report} report=${report} measure=${measure} onName=${showOnly} />`}`;
}

/** What the totals are limited to. @param {{names: Record<string, string>, onChange: (names: Record<string, string>) => void}} props */
function Only({ names, onChange }) {
  const rows = Object.entries(names);
  if (!rows.length) return null;
  const without = (/** @type {string} */ kind) => onChange(Object.fromEntries(rows.filter(([one]) => one !== kind)));
  return html`<p class="buttons">${rows.map(([kind, name]) => html`<button type="button" title=${t("showAgain", { name: name || t("nameless") })}
    onClick=${() => without(kind)}>${t(`name_${kind}`)}: ${name || t("nameless")} ✕</button>`)}</p>`;
}

/** @param {{report: any, measure: string, onName: (kind: string, name: string) => void}} props */
function Report({ report, measure, onName }) {
  const [group] = report.group_by;
  const digits = digitsOf(measure);
  const name = (/** @type {any} */ row) => row[group] || t("nameless");
  const bars = report.data.map((/** @type {any} */ row) => ({ name: name(row), value: row[measure] }));
  const title = `${t(`usage_${measure}`)}, ${t(`group_${group}`)}`;
  const head = [t(`name_${group}`), ...COLUMNS.map((column) => t(`usage_${column}`))];
  const numbers = (/** @type {any} */ row) => COLUMNS.map((column) => number(row[column], digitsOf(column)));
  const rows = report.data.map((/** @type {any} */ row) => [
    group === "day"
      ? html`<b class="day">${name(row)}</b>`
      : html`<button type="button" class="name" title=${t("showOnly", { name: name(row) })} onClick=${() => onName(group, row[group])}>${name(row)}</button>`,
    ...numbers(row),
  ]);
  if (rows.length > 1) rows.push([html`<b>${t("usage_total")}</b>`, ...numbers(report.total)]);
  return html`<section class="table">
      ${group === "day"
        ? html`<${DayPlot} title=${title} bars=${bars} first=${report.from} last=${report.to} digits=${digits} />`
        : html`<${NamePlot} title=${title} bars=${bars} digits=${digits} />`}</section>
    <${Table} caption=${t("usageTable")} head=${head} rows=${rows} empty=${t("noUsage")} />`;
}

/** Save what the gateway writes as CSV as a file. Throws GatewayError. @param {Query} query */
async function downloadCsv(query) {
  await saveResponse(await send("GET", usagePath(query, "csv")));
}
