/** @file `GET /v1/teams`: teams, their keys, and what they have used of their limits. */

import { LIMITS, readTeams } from "../admin.js";
import { asGatewayError, store } from "../conversation.js";
import { html, useEffect, useState } from "../html.js";
import { useStore } from "../store.js";
import { number, t } from "../texts.js";
import { AdminProblem } from "./problem.js";
import { Table } from "./table.js";
import { limitDigits, UsedLimit } from "./used_limit.js";

/** @typedef {import("../admin.js").TeamInfo} TeamInfo */

export function TeamsView() {
  const { key } = useStore(store);
  const [rows, setRows] = useState(/** @type {TeamInfo[] | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const load = async () => {
    try {
      setRows(await readTeams());
      setError(null);
    } catch (thrown) {
      setRows(null);
      setError(asGatewayError(thrown));
    }
  };
  useEffect(() => void load(), [key]);
  const head = ["team", "models", "members", "usedLimits"].map((key) => t(key));
  const cells = rows?.map((/** @type {TeamInfo} */ row) => [
    html`<b>${row.name}</b>`,
    row.models.map((one) => html`<code class="line">${one}</code>`),
    row.keys.length ? row.keys.map((name) => html`<span class="line">${name}</span>`) : "–",
    html`<${TeamLimits} row=${row} />`,
  ]);
  return html`
    <div class="label-row"><h1>${t("teams")}</h1><button type="button" onClick=${load}>${t("reload")}</button></div>
    ${error && html`<${AdminProblem} error=${error} />`}
    ${cells && html`<p class="muted">${t("teamsText")}</p>
      <${Table} caption=${t("teamList")} head=${head} rows=${cells} empty=${t("noTeams")} />`}`;
}

/** The limits of a team; of one that cannot be read now, only its number. @param {{row: TeamInfo}} props */
function TeamLimits({ row }) {
  const set = LIMITS.filter((kind) => (row.limits[kind] ?? null) !== null);
  if (!set.length) return "–";
  return set.map((kind) => {
    const use = row.used.find((one) => one.kind === kind);
    const limit = Number(row.limits[kind]);
    return html`<span class="line">${use ? html`<${UsedLimit} owner=${row.name} ...${use} />` : number(limit, limitDigits(kind))} ${t(`limit_${kind}`)}</span>`;
  });
}
