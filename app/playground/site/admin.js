/** @file What administrators read and change: keys and teams. */

import { sendJson } from "./gateway.js";

/**
 * @typedef {object} KeyInfo as `GET /v1/keys` has it
 * @property {string} name
 * @property {"stored" | "file"} source
 * @property {"active" | "expired" | "revoked"} state
 * @property {string[]} models
 * @property {boolean} admin
 * @property {string | null} team
 * @property {Record<string, number | null>} limits
 * @property {string | null} expires
 * @property {string} note
 * @property {string | null} last_used
 * @property {string | null} previous_until
 * @property {string | null} revoked
 */

/**
 * @typedef {object} TeamInfo as `GET /v1/teams` has it
 * @property {string} name
 * @property {string[]} models
 * @property {Record<string, number | null>} limits
 * @property {string[]} keys
 * @property {{kind: string, limit: number, used: number}[]} used
 */

/** What a form for a key holds: all of it as text. @typedef {Record<string, any> & {limits: Record<string, string>}} KeyDraft */

export const LIMITS = ["requests_per_minute", "tokens_per_minute", "concurrent_streams", "spend_per_day", "spend_per_month"];

/** @param {string} name */
const keyPath = (name) => `v1/keys/${encodeURIComponent(name)}`;

/** @param {boolean} revoked @returns {Promise<KeyInfo[]>} */
export const readKeys = async (revoked) => (await sendJson("GET", revoked ? "v1/keys?revoked=true" : "v1/keys")).data;

/** @returns {Promise<TeamInfo[]>} */
export const readTeams = async () => (await sendJson("GET", "v1/teams")).data;

/** @param {KeyDraft} draft @returns {Promise<KeyInfo & {key: string}>} */
export const createKey = (draft) => sendJson("POST", "v1/keys", { name: draft.name, ...describeDraft(draft) });

/** Change only what differs. @param {KeyInfo} row @param {KeyDraft} draft @returns {Promise<KeyInfo>} */
export function changeKey(row, draft) {
  const before = describeDraft(draftOf(row));
  const after = Object.entries(describeDraft(draft));
  return sendJson("PATCH", keyPath(row.name), Object.fromEntries(after.filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(before[key]))));
}

/** @param {string} name @param {number} seconds @returns {Promise<KeyInfo & {key: string}>} */
export const rotateKey = (name, seconds) => sendJson("POST", `${keyPath(name)}/rotate`, { overlap_seconds: seconds });

/** @param {string} name */
export const revokeKey = (name) => sendJson("DELETE", keyPath(name));

/** @param {KeyInfo} [row] without one, a new key @returns {KeyDraft} */
export function draftOf(row) {
  return {
    name: row?.name ?? "",
    models: row ? row.models.join(", ") : "*",
    team: row?.team ?? "",
    expires: row?.expires?.slice(0, 10) ?? "",
    note: row?.note ?? "",
    admin: row?.admin ?? false,
    limits: Object.fromEntries(LIMITS.map((kind) => [kind, String(row?.limits[kind] ?? "")])),
  };
}

/** @param {KeyDraft} draft @returns {Record<string, any>} */
function describeDraft({ models, team, expires, note, admin, limits }) {
  const given = Object.entries(limits).filter(([, text]) => text.trim());
  return {
    models: models.split(/[,\s]+/).filter(Boolean),
    team: team || null,
    expires: expires || null,
    note,
    admin,
    limits: Object.fromEntries(given.map(([kind, text]) => [kind, Number(text)])),
  };
}
