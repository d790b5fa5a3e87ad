/** @file Keeps the page alive when a part of it cannot be shown. */

import { Component, html } from "../html.js";
import { t } from "../texts.js";
import { PlainText } from "./text.js";

/**
 * Shows its children; where these fail, `source` as JSON. Tries again when `source` changes.
 * Properties: `source` (any value), `children`.
 */
export class Guard extends Component {
  constructor() {
    super();
    this.state = { failed: false };
  }

  static getDerivedStateFromError() {
    return { failed: true };
  }

  /** @param {any} next */
  componentWillReceiveProps(next) {
    if (next.source !== /** @type {any} */ (this.props).source) this.setState({ failed: false });
  }

  render(/** @type {any} */ { source, children }, /** @type {any} */ { failed }) {
    if (!failed) return children;
    return html`<div class="part other"><p class="muted">${t("cannotBeShown")}</p>
      <pre tabindex="0" role="region" aria-label="JSON"><${PlainText} text=${JSON.stringify(source, null, 2) ?? ""} /></pre></div>`;
  }
}
