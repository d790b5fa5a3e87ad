/** @file `POST /v1/convert`: a conversation in two formats side by side. */

import { asGatewayError, setMessages, setOptions } from "../conversation.js";
import { EXAMPLES } from "../formats/examples.js";
import { FORMATS } from "../formats/names.js";
import { sendJson } from "../gateway.js";
import { html, useEffect, useState } from "../html.js";
import { t } from "../texts.js";
import { Checkbox, CopyButton, Select, TextArea } from "./controls.js";
import { Code } from "./text.js";

const DELAY_MS = 300;

export function ConvertView() {
  const [from, setFrom] = useState("openai");
  const [to, setTo] = useState("qwen");
  const [strict, setStrict] = useState(false);
  const [text, setText] = useState(() => JSON.stringify(EXAMPLES.openai, null, 2));
  const [result, setResult] = useState(/** @type {{messages: any[], warnings: string[]} | null} */ (null));
  const [mistakes, setMistakes] = useState(/** @type {string[]} */ ([]));

  useEffect(() => {
    let current = true;
    const timer = setTimeout(async () => {
      const outcome = await convert(text, from, to, strict);
      if (!current) return;
      setResult(outcome.result);
      setMistakes(outcome.mistakes);
    }, DELAY_MS);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [text, from, to, strict]);

  const formats = Object.entries(FORMATS);
  const output = result ? JSON.stringify(result.messages, null, 2) : "";
  const showExample = () => setText(JSON.stringify(EXAMPLES[from === "auto" ? "openai" : from], null, 2));
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
        <${TextArea} label=${t("messages")} value=${text} rows=${26} onInput=${setText}
          action=${html`<button type="button" class="quiet" onClick=${showExample}>${t("example")}</button>`} />
        <${Checkbox} label=${t("strict")} hint=${t("strictHint")} checked=${strict} onChange=${setStrict} />
      </section>
      <section aria-label=${t("to")}>
        <${Select} label=${t("to")} value=${to} options=${formats} onChange=${setTo} />
        <div class="label-row"><span>${t("messages")}</span>
          <span>${result && html`<button type="button" class="quiet" onClick=${useInChat}>${t("useInChat")}</button>`}
            <${CopyButton} text=${output} /></span></div>
        ${mistakes.length > 0 && html`<div role="alert"><ul class="mistakes">${mistakes.map((one) => html`<li>${one}</li>`)}</ul></div>`}
        ${result && html`<${Code} text=${output} language="json" label=${t("converted")} />`}
        ${result && result.warnings.length > 0 &&
          html`<ul class="notices" aria-label=${t("warnings")}>${result.warnings.map((one) => html`<li>${one}</li>`)}</ul>`}
      </section>
    </div>`;
}

/**
 * @param {string} text
 * @param {string} from
 * @param {string} to
 * @param {boolean} strict
 */
async function convert(text, from, to, strict) {
  try {
    const value = JSON.parse(text);
    const messages = Array.isArray(value) ? value : value.messages;
    return { result: await sendJson("POST", "v1/convert", { from, to, messages, strict }), mistakes: [] };
  } catch (error) {
    if (error instanceof SyntaxError) return { result: null, mistakes: [error.message] };
    const { violations } = asGatewayError(error);
    const lines = violations.map(({ param, message }) => (param && !message.startsWith(param) ? `${param}: ${message}` : message));
    return { result: null, mistakes: lines };
  }
}
