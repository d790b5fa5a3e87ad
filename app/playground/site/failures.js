/** @file What a failure is called in the page's language, and whose fault it is: both follow from its code. */

import { hasText, t } from "./texts.js";

/**
 * @typedef {object} Responsibilities as `gateway.json` has them
 * @property {Record<string, string>} gateway by code, for errors that the gateway finds itself
 * @property {Record<string, string>} upstream by code, for errors of a model server; all others are the server's fault
 * @property {Record<string, string>} other_names the codes of names that OpenAI's APIs have for them
 * @property {string[]} network_causes the causes that lie between gateway and model server
 */

/**
 * @typedef {object} Failure
 * @property {string} title a sentence in the page's language
 * @property {"caller" | "policy" | "upstream" | "gateway" | "network"} [place] whose fault it is, if that is known
 * @property {string} [detail] the gateway's own message
 */

/**
 * @param {{message?: string, code?: string, parley_code?: string, upstream?: {cause?: string | null} | null}} error
 * @param {Responsibilities} responsible
 * @returns {Failure}
 */
export function describeFailure({ message, code = "", parley_code, upstream }, responsible) {
  const name = parley_code ?? responsible.other_names[code] ?? code;
  const place = findPlace(name, upstream, responsible);
  const title = nameFailure(name, Boolean(upstream), place);
  return title ? { title, place, detail: message } : { title: message || t("replyFailed"), place };
}

/**
 * Return what a code means; null for one that the page does not know.
 * @param {string} code
 * @param {boolean} fromUpstream
 * @param {string | null | undefined} place
 */
export function nameFailure(code, fromUpstream, place) {
  if (fromUpstream && place === "network") return t("error_network");
  if (fromUpstream && hasText(`error_upstream_${code}`)) return t(`error_upstream_${code}`);
  return hasText(`error_${code}`) ? t(`error_${code}`) : null;
}

/**
 * @param {string} code
 * @param {{cause?: string | null} | null | undefined} upstream
 * @param {Responsibilities} responsible
 * @returns {Failure["place"]}
 */
function findPlace(code, upstream, responsible) {
  if (code === "unreachable") return "network";
  if (!upstream) return /** @type {Failure["place"]} */ (responsible.gateway[code]);
  if (responsible.network_causes.includes(upstream.cause ?? "")) return "network";
  return /** @type {Failure["place"]} */ (responsible.upstream[code] ?? "upstream");
}
