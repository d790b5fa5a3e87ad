/** @file `/v1/keys`: API keys listed, created, changed, rotated and revoked. */

import { changeKey, createKey, draftOf, LIMITS, readKeys, readTeams, revokeKey, rotateKey } from "../admin.js";
import { asGatewayError, store } from "../conversation.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { useStore } from "../store.js";
import { dateTime, number, t } from "../texts.js";
import { Checkbox, CopyButton, Field, Select } from "./controls.js";
import { Dialog } from "./dialog.js";
import { AdminProblem, Problem } from "./problem.js";
import { Badge, Table } from "./table.js";
import { limitDigits } from "./used_limit.js";

/** @typedef {import("../admin.js").KeyInfo} KeyInfo */
/** @typedef {{kind: "create" | "change" | "rotate" | "revoke", row?: KeyInfo}} Action what a dialog is open for */

export function KeysView() {
  const { key } = useStore(store);
  const [rows, setRows] = useState(/** @type {KeyInfo[] | null} */ (null));
  const [teams, setTeams] = useState(/** @type {string[]} */ ([]));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [revoked, setRevoked] = useState(false);
  const [action, setAction] = useState(/** @type {Action | null} */ (null));
  const [secret, setSecret] = useState(/** @type {{name: string, value: string} | null} */ (null));
  const load = async () => {
    try {
      const [found, ofTeams] = await Promise.all([readKeys(revoked), readTeams()]);
      setRows(found);
      setTeams(ofTeams.map(({ name }) => name));
      setError(null);
    } catch (thrown) {
      setRows(null);
      setError(asGatewayError(thrown));
    }
  };
  useEffect(() => void load(), [key, revoked]);
  const close = () => setAction(null);
  const done = (/** @type {any} */ made) => {
    close();
    if (made?.key) setSecret({ name: made.name, value: made.key });
    load();
  };
  return html`
    <div class="label-row"><h1>${t("keys")}</h1>
      ${rows && html`<button type="button" class="primary" onClick=${() => setAction({ kind: "create" })}>${t("createKey")}</button>`}</div>
    ${error && html`<${AdminProblem} error=${error} />`}
    ${secret && html`<${Secret} ...${secret} onClose=${() => setSecret(null)} />`}
    ${rows && html`<${Checkbox} label=${t("showRevoked")} checked=${revoked} onChange=${setRevoked} />
      <${Keys} rows=${rows} onAction=${setAction} />`}
    ${action?.kind === "create" && html`<${KeyForm} teams=${teams} onDone=${done} onClose=${close} />`}
    ${action?.kind === "change" && html`<${KeyForm} row=${action.row} teams=${teams} onDone=${done} onClose=${close} />`}
    ${action?.kind === "rotate" && html`<${RotateForm} row=${action.row} onDone=${done} onClose=${close} />`}
    ${action?.kind === "revoke" && html`<${RevokeForm} row=${action.row} onDone=${done} onClose=${close} />`}`;
}

/** A key that was just made: the gateway cannot show it again. @param {{name: string, value: string, onClose: () => void}} props */
function Secret({ name, value, onClose }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => ref.current?.focus(), [value]);
  return html`<section ref=${ref} tabindex="-1" class="success secret" aria-label=${t("newKeyOf", { name })}>
    <p><b>${t("newKeyOf", { name })}</b> ${t("shownOnce")}</p>
    <p><code>${value}</code></p>
    <div class="buttons"><${CopyButton} text=${value} /><button type="button" onClick=${onClose}>${t("close")}</button></div>
  </section>`;
}

/** @type {Record<KeyInfo["state"], import("./table.js").State>} */
const STATES = { active: "good", expired: "unknown", revoked: "bad" };

/** @param {{rows: KeyInfo[], onAction: (action: Action) => void}} props */
function Keys({ rows, onAction }) {
  const head = ["keyName", "state", "team", "models", "limits", "expires", "lastUse", "note", "actions"].map((key) => t(key));
  const cells = rows.map((row) => [
    html`<b>${row.name}</b>${row.admin && html`<br /><small class="muted">${t("admin")}</small>`}`,
    html`<${Badge} state=${STATES[row.state]} text=${t(`key_${row.state}`)} />
      ${row.revoked && html`<br /><small class="muted">${dateTime(row.revoked)}</small>`}
      ${row.previous_until && html`<br /><small class="muted">${t("previousUntil", { time: dateTime(row.previous_until) })}</small>`}
      ${row.source === "file" && html`<br /><small class="muted">${t("fromFile")}</small>`}`,
    row.team ?? "–",
    row.models.length ? row.models.map((one) => html`<code class="line">${one}</code>`) : t("noModels"),
    describeLimits(row),
    row.expires ? dateTime(row.expires) : "–",
    row.last_used ? dateTime(row.last_used) : "–",
    row.note || "–",
    row.source === "stored" && row.state !== "revoked" ? html`<${Actions} row=${row} onAction=${onAction} />` : "–",
  ]);
  return html`<${Table} caption=${t("keyList")} head=${head} rows=${cells} empty=${t("noKeys")} />`;
}

/** @param {KeyInfo} row */
function describeLimits({ limits }) {
  const set = LIMITS.filter((kind) => (limits[kind] ?? null) !== null);
  if (!set.length) return "–";
  return set.map((kind) => html`<span class="line">${t(`limit_${kind}`)}: ${number(Number(limits[kind]), limitDigits(kind))}</span>`);
}

/** @param {{row: KeyInfo, onAction: (action: Action) => void}} props */
function Actions({ row, onAction }) {
  const kinds = /** @type {const} */ (["change", "rotate", "revoke"]);
  return html`<span class="buttons">${kinds.map((kind) => html`<button type="button" class=${kind === "revoke" ? "danger" : ""}
    aria-label=${t(`action_${kind}`, { name: row.name })} onClick=${() => onAction({ kind, row })}>${t(`do_${kind}`)}</button>`)}</span>`;
}

/**
 * A form in a dialog, which sends something to the gateway and shows what it says against it.
 * @param {{title: string, submit: string, danger?: boolean, send: () => Promise<any>, onDone: (made: any) => void,
 *   onClose: () => void, onError?: (error: any) => void, children?: any}} props
 */
function ActionForm({ title, submit, danger, send, onDone, onClose, onError, children }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const [sending, setSending] = useState(false);
  const onSubmit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setSending(true);
    try {
      onDone(await send());
    } catch (thrown) {
      const found = asGatewayError(thrown);
      setError(found);
      onError?.(found);
      setSending(false);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}><form onSubmit=${onSubmit}>
    ${children}
    ${error && html`<${Problem} error=${error} />`}
    <div class="buttons"><button type="submit" class=${danger ? "danger" : "primary"} disabled=${sending}>${submit}</button>
      <button type="button" onClick=${onClose}>${t("cancel")}</button></div>
  </form><//>`;
}

/** @param {{row?: KeyInfo, teams: string[], onDone: (made: any) => void, onClose: () => void}} props */
function KeyForm({ row, teams, onDone, onClose }) {
  const [draft, setDraft] = useState(() => draftOf(row));
  const [violations, setViolations] = useState(/** @type {{param: string | null, message: string}[]} */ ([]));
  const set = (/** @type {string} */ name) => (/** @type {any} */ value) => setDraft((/** @type {any} */ before) => ({ ...before, [name]: value }));
  const setLimit = (/** @type {string} */ kind) => (/** @type {string} */ value) => set("limits")({ ...draft.limits, [kind]: value });
  const wrong = (/** @type {string} */ param) => violations.find((/** @type {any} */ one) => one.param === param)?.message ?? null;
  const options = [["", t("noTeam")], ...[...new Set([...teams, ...(draft.team ? [draft.team] : [])])].map((name) => [name, name])];
  const send = () => (row ? changeKey(row, draft) : createKey(draft));
  return html`<${ActionForm} title=${row ? t("action_change", { name: row.name }) : t("createKey")} submit=${row ? t("save") : t("createKey")}
      send=${send} onDone=${onDone} onClose=${onClose} onError=${(/** @type {any} */ error) => setViolations(error.violations)}>
    ${!row && html`<${Field} label=${t("keyName")} value=${draft.name} onInput=${set("name")} wrong=${wrong("name")} required autocomplete="off" />`}
    <${Field} label=${t("models")} value=${draft.models} onInput=${set("models")} wrong=${wrong("models")} hint=${t("modelsHint")} spellcheck="false" />
    <div class="pair">
      <${Select} label=${t("team")} value=${draft.team} options=${options} onChange=${set("team")} />
      <${Field} label=${t("expires")} type="date" value=${draft.expires} onInput=${set("expires")} wrong=${wrong("expires")} />
    </div>
    <${Field} label=${t("note")} value=${draft.note} onInput=${set("note")} wrong=${wrong("note")} maxlength="1000" />
    <fieldset><legend>${t("limits")}</legend><div class="pair">
      ${LIMITS.map((kind) => html`<${Field} key=${kind} label=${t(`limit_${kind}`)} type="number" min="0" step=${kind.startsWith("spend") ? "any" : "1"}
        value=${draft.limits[kind]} onInput=${setLimit(kind)} wrong=${wrong(`limits.${kind}`)} />`)}
    </div></fieldset>
    <${Checkbox} label=${t("admin")} checked=${draft.admin} onChange=${set("admin")} hint=${t("adminHint")} />
  <//>`;
}

/** Seconds, by the name of their text. */
const OVERLAPS = { none: 0, hour: 3600, day: 86_400, week: 604_800, month: 2_592_000 };

/** @param {{row: KeyInfo, onDone: (made: any) => void, onClose: () => void}} props */
function RotateForm({ row, onDone, onClose }) {
  const [seconds, setSeconds] = useState("86400");
  const options = Object.entries(OVERLAPS).map(([name, value]) => [String(value), t(`overlap_${name}`)]);
  return html`<${ActionForm} title=${t("action_rotate", { name: row.name })} submit=${t("do_rotate")} onDone=${onDone} onClose=${onClose}
      send=${() => rotateKey(row.name, Number(seconds))}>
    <${Select} label=${t("overlap")} value=${seconds} options=${options} onChange=${setSeconds} hint=${t("overlapHint")} />
  <//>`;
}

/** @param {{row: KeyInfo, onDone: (made: any) => void, onClose: () => void}} props */
function RevokeForm({ row, onDone, onClose }) {
  return html`<${ActionForm} title=${t("action_revoke", { name: row.name })} submit=${t("do_revoke")} danger onDone=${onDone} onClose=${onClose}
      send=${() => revokeKey(row.name)}>
    <p>${t("revokeText")}</p>
  <//>`;
}
