/** @file The parts of a message: reasoning, content, calls, results and media, each as a card of its own. */

import { store } from "../conversation.js";
import { html } from "../html.js";
import { useStore } from "../store.js";
import { t } from "../texts.js";
import { Code, Markdown, PlainText, prettyJson } from "./text.js";

/** @typedef {import("../reply.js").Part} Part */

/**
 * @param {{part: Part, role: string}} props
 */
export function PartView({ part, role }) {
  switch (part.kind) {
    case "reasoning":
      return html`<details class="part reasoning" open>
        <summary>${t("reasoning")} <${Progress} part=${part} /></summary>
        <${Markdown} text=${part.text} />
      </details>`;
    case "call":
      return html`<section class="part call" aria-label=${t("callOf", { name: part.name ?? "" })}>
        <h3><span class="tag">${t("functionCall")}</span> <${FunctionName} part=${part} /> <${Progress} part=${part} /></h3>
        <${Code} text=${part.done ? prettyJson(part.text) : part.text} language="json" label=${t("arguments")} />
      </section>`;
    case "result":
      return html`<section class=${`part result ${part.error ? "failed" : ""}`} aria-label=${t("resultOf", { name: part.name ?? "" })}>
        <h3><span class="tag">${t("functionResult")}</span> <${FunctionName} part=${part} outcome />
          ${part.id && html`<small class="muted">${part.id}</small>`}</h3>
        <${Code} text=${prettyJson(part.text)} language="json" label=${t("result")} />
      </section>`;
    case "media":
      return html`<${Media} part=${part} />`;
    case "content":
      return role === "assistant"
        ? html`<div class="part content"><${Markdown} text=${part.text} />
            ${!part.done && html`<${Progress} part=${part} />`}</div>`
        : html`<div class="part content plain"><${PlainText} text=${part.text} /></div>`;
    default:
      return html`<${Code} text=${part.text} language="json" label="JSON" />`;
  }
}

/**
 * The function, or the server of tools with its tool. `outcome` adds whether a result of a server is an error.
 * @param {{part: Part, outcome?: boolean}} props
 */
function FunctionName({ part, outcome }) {
  const { servers } = useStore(store);
  const server = part.server ?? findServer(part.name ?? "", Object.values(servers).flatMap(Object.keys));
  if (!part.name) return null;
  if (server === undefined) return html`<code>${part.name}</code>`;
  return html`<code>${part.name.slice(server.length + 1)}</code> <small class="muted">${t("onServer", { name: server })}</small>
    ${outcome && part.done && html` <span class=${`badge ${part.error ? "bad" : "good"}`}>${part.error ? t("resultError") : t("resultOk")}</span>`}`;
}

/** The model sees a tool as `<server>-<tool>`. @param {string} name @param {string[]} servers */
function findServer(name, servers) {
  const found = servers.filter((server) => name.startsWith(`${server}-`));
  return found.length ? found.reduce((longest, one) => (one.length > longest.length ? one : longest)) : undefined;
}

/** @param {{part: Part}} props */
function Progress({ part }) {
  return part.done ? null : html`<span class="growing" aria-hidden="true"></span>`;
}

/** Images are shown only if they are in the message: nothing is loaded from elsewhere. @param {{part: Part}} props */
function Media({ part }) {
  const { text, name } = part;
  if (/^data:image\//.test(text)) return html`<img class="part media" src=${text} alt=${name ?? t("attachedImage")} />`;
  const kind = /^data:([^;,]+)/.exec(text)?.[1];
  return html`<p class="part media file"><${FileIcon} /> ${name ?? kind ?? text.slice(0, 200)}</p>`;
}

/** A sheet of paper. */
export function FileIcon() {
  return html`<svg class="file-icon" viewBox="0 0 16 16" aria-hidden="true"><path d="M4 1.5h5.5L13 5v9.5H4z M9.5 1.5V5H13" /></svg>`;
}
