/** @file What the request says besides its messages. */

import { changeFormat, setOptions, store } from "../conversation.js";
import { EXAMPLE_FUNCTIONS } from "../formats/examples.js";
import { FORMATS } from "../formats/names.js";
import { html, useState } from "../html.js";
import { useStore } from "../store.js";
import { t } from "../texts.js";
import { Checkbox, Field, Select, TextArea } from "./controls.js";

export function Options() {
  const { options, models } = useStore(store);
  const set = (/** @type {string} */ name) => (/** @type {any} */ value) => setOptions({ [name]: value });
  const example = html`<button type="button" class="quiet"
    onClick=${() => setOptions({ functions: options.functions ? "" : JSON.stringify(EXAMPLE_FUNCTIONS, null, 2) })}>
    ${options.functions ? t("clear") : t("example")}</button>`;
  return html`<details class="panel" open=${matchMedia("(min-width: 60rem)").matches}>
    <summary>${t("options")} <span class="muted">${options.model} · ${options.format}</span></summary>
    <${ModelPicker} models=${models} model=${options.model} onChange=${set("model")} />
    <${Select} label=${t("format")} value=${options.format} onChange=${changeFormat}
      options=${Object.entries(FORMATS).map(([name, text]) => [name, text])} hint=${t("formatHint")} />
    <div class="pair">
      <${Select} label=${t("thinking")} value=${options.thinking} onChange=${set("thinking")}
        options=${[["", t("default")], ["on", t("on")], ["off", t("off")]]} />
      <${Select} label=${t("cache")} value=${options.cache} onChange=${set("cache")}
        options=${[["", t("default")], ["on", t("on")], ["refresh", t("cache_refresh")], ["off", t("off")], ["only", t("cache_only")]]} />
    </div>
    <${TextArea} label=${t("functions")} value=${options.functions} onInput=${set("functions")} rows=${7}
      wrong=${findMistake(options.functions, true)} action=${example} placeholder="[]" />
    <details class="more"><summary>${t("parameters")}</summary>
      <div class="pair">
        <${Field} label="temperature" type="number" min="0" max="2" step="0.1" value=${options.temperature} onInput=${set("temperature")} />
        <${Field} label="max_tokens" type="number" min="1" step="1" value=${options.maxTokens} onInput=${set("maxTokens")} />
      </div>
      <${TextArea} label=${t("moreParameters")} value=${options.more} onInput=${set("more")} rows=${3}
        wrong=${findMistake(options.more, false)} placeholder='{"seed": 7}' />
      <${Checkbox} label=${t("keepRunning")} hint=${t("keepRunningHint")} checked=${options.keepRunning} onChange=${set("keepRunning")} />
    </details>
  </details>`;
}

/** A list of the models; a field where there are none, or for one that the list lacks. @param {{models: string[], model: string, onChange: (model: string) => void}} props */
function ModelPicker({ models, model, onChange }) {
  const [writes, setWrites] = useState(false);
  if (!models.length) return html`<${Field} label=${t("model")} value=${model} onInput=${onChange} autocomplete="off" />`;
  const other = writes || !models.includes(model);
  const choose = (/** @type {string} */ chosen) => {
    setWrites(chosen === "");
    if (chosen) onChange(chosen);
  };
  return html`<${Select} label=${t("model")} value=${other ? "" : model} onChange=${choose}
      options=${[...models.map((name) => [name, name]), ["", t("otherModel")]]} />
    ${other && html`<${Field} label=${t("modelName")} value=${model} onInput=${onChange} autocomplete="off" />`}`;
}

/** @param {string} text @param {boolean} list */
function findMistake(text, list) {
  if (!text.trim()) return null;
  try {
    const value = JSON.parse(text);
    if (list && !Array.isArray(value)) return t("notAList");
    if (!list && (typeof value !== "object" || value === null || Array.isArray(value))) return t("notAnObject");
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
