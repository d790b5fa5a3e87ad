/** @file One message of the conversation, with its mistakes, and its JSON to edit. */

import { removeMessage, replaceMessage } from "../conversation.js";
import { Component, html } from "../html.js";
import { describe, nameResult } from "../formats/describe.js";
import { describeViolation, markMessage, markSyntax } from "../json_marks.js";
import { t } from "../texts.js";
import { Guard } from "./guard.js";
import { JsonArea } from "./json_area.js";
import { PartView } from "./parts.js";

/** It is rendered again only if something in it has changed: a conversation may be long. */
export class MessageView extends Component {
  constructor() {
    super();
    this.state = { draft: null, checked: false };
  }

  /** @param {any} next @param {any} nextState */
  shouldComponentUpdate(next, nextState) {
    const { message, mistakes, losses, index, language } = /** @type {any} */ (this.props);
    return (
      next.message !== message ||
      next.mistakes !== mistakes ||
      next.losses !== losses ||
      next.index !== index ||
      next.language !== language ||
      nextState !== this.state
    );
  }

  save() {
    const { index } = /** @type {any} */ (this.props);
    const { draft } = /** @type {any} */ (this.state);
    if (markSyntax(draft).length) {
      this.setState({ checked: true });
      return;
    }
    replaceMessage(index, JSON.parse(draft));
    this.setState({ draft: null, checked: false });
  }

  /** The mistakes of the draft, and what the gateway found in the message while it is as it was. @returns {import("../json_marks.js").Mark[]} */
  findMarks() {
    const { message, mistakes } = /** @type {any} */ (this.props);
    const { draft, checked } = /** @type {any} */ (this.state);
    if (mistakes && draft === JSON.stringify(message, null, 2)) return markMessage(draft, mistakes);
    return checked ? markSyntax(draft) : [];
  }

  render(/** @type {any} */ { message, index, mistakes, losses, calls }, /** @type {any} */ { draft }) {
    const { role, parts, unknownRole } = describe(message);
    const number = index + 1;
    return html`<article class=${`message ${role} ${mistakes ? "mistaken" : ""}`} aria-label=${t("messageOf", { number, role: t(role) })}>
      <header><h2>${unknownRole === undefined ? t(role) : html`${t("unknownRole")} <code class="wrong">${unknownRole}</code>`}</h2>
        <div class="actions">
          <button type="button" class="quiet" aria-label=${t("editMessage", { number })}
            onClick=${() => this.setState({ draft: draft === null ? JSON.stringify(message, null, 2) : null, checked: false })}>
            ${t("edit")}</button>
          <button type="button" class="quiet" aria-label=${t("removeMessage", { number })}
            onClick=${() => removeMessage(index)}>${t("remove")}</button>
        </div>
      </header>
      ${mistakes && html`<div role="alert"><ul class="mistakes">${mistakes.map((/** @type {any} */ one) => html`<li>${describeViolation(one)}</li>`)}</ul></div>`}
      ${losses && html`<ul class="notices" aria-label=${t("warnings")}>${losses.map((/** @type {any} */ one) => html`<li>${describeViolation(one)}</li>`)}</ul>`}
      ${draft === null
        ? html`<${Guard} source=${message}>${parts.map((part) => html`<${PartView} part=${nameResult(part, calls)} role=${role} />`)}<//>`
        : html`<${JsonArea} label=${t("messageJson", { number })} value=${draft} marks=${this.findMarks()} rows=${10}
              onInput=${(/** @type {string} */ value) => this.setState({ draft: value })} />
            <p><button type="button" class="primary" onClick=${() => this.save()}>${t("save")}</button></p>`}
    </article>`;
  }
}
