/** @file A failure: what happened and whose fault it is in the page's language, then the gateway's own message. */

import { store } from "../conversation.js";
import { describeFailure } from "../failures.js";
import { html } from "../html.js";
import { useStore } from "../store.js";
import { t } from "../texts.js";

/**
 * @typedef {object} GivenError a `GatewayError`, or the error of a stream
 * @property {string} [message]
 * @property {string} [code]
 * @property {string} [parley_code] of a failed Response, whose `code` is one of OpenAI's
 * @property {number} [status]
 * @property {string} [requestId]
 * @property {Record<string, any>} [upstream]
 */

/**
 * Properties: `error`; `title` takes the place of the sentence for its code, `detail` that of the gateway's message;
 * `children` are the buttons.
 * @param {{error: GivenError, title?: string, detail?: string, children?: any}} props
 */
export function Problem({ error, title, detail, children }) {
  const { gateway } = useStore(store);
  const failure = describeFailure(error, gateway.responsible);
  const text = detail ?? failure.detail;
  const facts = [error.status || "", error.code, error.upstream?.name, error.upstream?.cause, error.requestId].filter(Boolean);
  return html`<div class="problem" role="alert">
    <p><b>${title ?? failure.title}</b>${failure.place && html` <${Place} place=${failure.place} />`}</p>
    ${text && text !== title && html`<p class="detail">${text}</p>`}
    ${facts.length > 0 && html`<p class="facts">${facts.map((one) => html`<code>${one}</code>`)}</p>`}
    ${children && html`<div class="buttons">${children}</div>`}
  </div>`;
}

/** The failure of a page that only administrators may see. @param {{error: GivenError}} props */
export function AdminProblem({ error }) {
  const needsKey = error.status === 401 || error.status === 403;
  return html`<${Problem} error=${error}>${needsKey && html`<p>${t("statusNeedsAdmin")}</p>`}<//>`;
}

/** Whose fault something is. @param {{place: string}} props */
export function Place({ place }) {
  return html`<span class="place">${t(`place_${place}`)}</span>`;
}
