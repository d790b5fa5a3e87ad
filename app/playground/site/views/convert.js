/** @file `POST /v1/convert`: a conversation in two formats side by side. */

import { asGatewayError, setMessages, setOptions } from "../conversation.js";
import { FORMATS } from "../formats/index.js";
import { sendJson } from "../gateway.js";
import { html, useEffect, useState } from "../html.js";
import { describeViolation, markMessages, markSyntax } from "../json_marks.js";
import { splitByMessage } from "../losses.js";
import { t } from "../texts.js";
import { Checkbox, CopyButton, Select } from "./controls.js";
import { JsonArea } from "./json_area.js";
import { Problem } from "./problem.js";
import { Code } from "./text.js";

/** @typedef {import("../json_marks.js").Violation} Violation */

/**
 * @typedef {object} Outcome
 * @property {string} of the text that was converted
 * @property {{messages: any[], warnings: string[]} | null} result
 * @property {Violation[]} mistakes
 * @property {import("../gateway.js").GatewayError | null} error
 */

const DELAY_MS = 300;

export function ConvertView() {
  const [from, setFrom] = useState("openai");
  const [to, setTo] = useState("qwen");
  const [strict, setStrict] = useState(false);
  const [text, setText] = useState(() => JSON.stringify(FORMATS.openai.example, null, 2));
  const [outcome, setOutcome] = useState(/** @type {Outcome} */ ({ of: "", result: null, mistakes: [], error: null }));

  useEffect(() => {
    let current = true;
    const timer = setTimeout(async () => {
      const found = await convert(text, from, to, strict);
      if (current) setOutcome(found);
    }, DELAY_MS);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [text, from, to, strict]);

  const { result, error } = outcome;
  const mistakes = outcome.of === text ? outcome.mistakes : [];
  const warnings = outcome.of === text && result ? result.warnings : [];
  const formats = Object.entries(FORMATS).map(([name, { title }]) => [name, title]);
  const { byMessage, others } = splitByMessage(warnings);
  const losses = [...byMessage.values()].flat();
  const notices = [...others, ...mistakes.filter(({ param }) => !param).map(describeViolation)];
  const output = result ? JSON.stringify(result.messages, null, 2) : "";
  const showExample = () => setText(JSON.stringify(FORMATS[from === "auto" ? "openai" : from].example, null, 2));
  const useInChat = () => {
    setOptions({ format: to });
    setMessages(result?.messages ?? []);
    location.hash = "chat";
  };
  return html`
    <h1>${t("convert")}</h1>
    <p class="muted">${t("convertText")}</p>
    <div class="sides">
      <section aria-label=${t("from")}>
        <${Select} label=${t("from")} value=${from} options=${[["auto", t("detect")], ...formats]} onChange=${setFrom} />
        <${JsonArea} label=${t("messages")} value=${text} rows=${26} onInput=${setText} marks=${findMarks(text, mistakes, losses)}
          action=${html`<button type="button" class="quiet" onClick=${showExample}>${t("example")}</button>`} />
        <${Checkbox} label=${t("strict")} hint=${t("strictHint")} checked=${strict} onChange=${setStrict} />
      </section>
      <section aria-label=${t("to")}>
        <${Select} label=${t("to")} value=${to} options=${formats} onChange=${setTo} />
        <div class="label-row"><span>${t("messages")}</span>
          <span class="buttons">${result && html`<button type="button" class="quiet" onClick=${useInChat}>${t("useInChat")}</button>
            <${CopyButton} text=${output} />`}</span></div>
        ${error && html`<${Problem} error=${error} />`}
        ${notices.length > 0 && html`<div role="alert"><ul class="notices">${notices.map((one) => html`<li>${one}</li>`)}</ul></div>`}
        ${result && losses.length > 0 && html`<p class="notices">${t("lossesIn", { format: FORMATS[to].title, count: losses.length })}</p>`}
        ${!result && mistakes.length > 0 && html`<p class="muted">${t("correctFirst")}</p>`}
        ${result && html`<${Code} text=${output} language="json" label=${t("converted")} />`}
      </section>
    </div>`;
}

/**
 * @param {string} text
 * @param {Violation[]} mistakes of the gateway
 * @param {Violation[]} losses
 */
function findMarks(text, mistakes, losses) {
  const syntax = text.trim() ? markSyntax(text) : [];
  if (syntax.length || !text.trim()) return syntax;
  const placed = mistakes.filter(({ param }) => param);
  return [...markMessages(text, placed), ...markMessages(text, losses, "lost")];
}

/**
 * @param {string} text
 * @param {string} from
 * @param {string} to
 * @param {boolean} strict
 * @returns {Promise<Outcome>}
 */
async function convert(text, from, to, strict) {
  /** @type {Outcome} */
  const none = { of: text, result: null, mistakes: [], error: null };
  if (!text.trim() || markSyntax(text).length) return none;
  const value = JSON.parse(text);
  const messages = Array.isArray(value) ? value : (value?.messages ?? value?.input);
  try {
    return { ...none, result: await sendJson("POST", "v1/convert", { from, to, messages, strict }) };
  } catch (thrown) {
    const error = asGatewayError(thrown);
    const isMistake = error.code === "invalid_request" && error.violations.length > 0;
    return isMistake ? { ...none, mistakes: error.violations } : { ...none, error };
  }
}
