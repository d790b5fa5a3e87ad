/** @file One message of the conversation, with its mistakes, and its JSON to edit. */

import { removeMessage, replaceMessage } from "../conversation.js";
import { Component, html } from "../html.js";
import { describe } from "../formats/describe.js";
import { t } from "../texts.js";
import { TextArea } from "./controls.js";
import { Guard } from "./guard.js";
import { PartView } from "./parts.js";

/** It is rendered again only if something in it has changed: a conversation may be long. */
export class MessageView extends Component {
  constructor() {
    super();
    this.state = { draft: null, wrong: null };
  }

  /** @param {any} next @param {any} nextState */
  shouldComponentUpdate(next, nextState) {
    const { message, mistakes, index, language } = /** @type {any} */ (this.props);
    return (
      next.message !== message ||
      next.mistakes !== mistakes ||
      next.index !== index ||
      next.language !== language ||
      nextState !== this.state
    );
  }

  save() {
    const { index } = /** @type {any} */ (this.props);
    const { draft } = /** @type {any} */ (this.state);
    try {
      replaceMessage(index, JSON.parse(draft));
      this.setState({ draft: null, wrong: null });
    } catch (error) {
      this.setState({ wrong: String(error) });
    }
  }

  render(/** @type {any} */ { message, index, mistakes }, /** @type {any} */ { draft, wrong }) {
    const { role, parts } = describe(message);
    const number = index + 1;
    return html`<article class=${`message ${role} ${mistakes ? "mistaken" : ""}`} aria-label=${t("messageOf", { number, role: t(role) })}>
      <header><h2>${t(role)}</h2>
        <div class="actions">
          <button type="button" class="quiet" aria-label=${t("editMessage", { number })}
            onClick=${() => this.setState({ draft: draft === null ? JSON.stringify(message, null, 2) : null, wrong: null })}>
            ${t("edit")}</button>
          <button type="button" class="quiet" aria-label=${t("removeMessage", { number })}
            onClick=${() => removeMessage(index)}>${t("remove")}</button>
        </div>
      </header>
      ${mistakes && html`<div role="alert"><ul class="mistakes">${mistakes.map((/** @type {string} */ one) => html`<li>${one}</li>`)}</ul></div>`}
      ${draft === null
        ? html`<${Guard} source=${message}>${parts.map((part) => html`<${PartView} part=${part} role=${role} />`)}<//>`
        : html`<${TextArea} label=${t("messageJson", { number })} value=${draft} wrong=${wrong} rows=${10}
              onInput=${(/** @type {string} */ value) => this.setState({ draft: value })} />
            <p><button type="button" class="primary" onClick=${() => this.save()}>${t("save")}</button></p>`}
    </article>`;
  }
}
