/** @file What the request says besides its messages. */

import { changeFormat, chosenServers, setOptions, store } from "../conversation.js";
import { FORMATS } from "../formats/index.js";
import { html, useState } from "../html.js";
import { markShape } from "../json_marks.js";
import { useStore } from "../store.js";
import { t } from "../texts.js";
import { Checkbox, Field, Select } from "./controls.js";
import { Functions } from "./functions.js";
import { JsonArea } from "./json_area.js";

export function Options() {
  const { options, models, servers } = useStore(store);
  const set = (/** @type {string} */ name) => (/** @type {any} */ value) => setOptions({ [name]: value });
  return html`<details class="panel" open=${matchMedia("(min-width: 60rem)").matches}>
    <summary>${t("options")} <span class="muted">${options.model} · ${options.format}</span></summary>
    <${ModelPicker} models=${models} model=${options.model} onChange=${set("model")} />
    <${Select} label=${t("format")} value=${options.format} onChange=${changeFormat}
      options=${Object.entries(FORMATS).map(([name, { title }]) => [name, title])} hint=${t("formatHint")} />
    <div class="pair">
      <${Select} label=${t("thinking")} value=${options.thinking} onChange=${set("thinking")}
        options=${[["", t("default")], ["on", t("on")], ["off", t("off")]]} />
      <${Select} label=${t("cache")} value=${options.cache} onChange=${set("cache")}
        options=${[["", t("default")], ["on", t("on")], ["refresh", t("cache_refresh")], ["off", t("off")], ["only", t("cache_only")]]} />
    </div>
    <${Servers} servers=${servers[options.model] ?? {}} chosen=${chosenServers()} onChange=${set("servers")} />
    <${Functions} text=${options.functions} />
    <details class="more"><summary>${t("parameters")}</summary>
      <div class="pair">
        <${Field} label="temperature" type="number" min="0" max="2" step="0.1" value=${options.temperature} onInput=${set("temperature")} />
        <${Field} label="max_tokens" type="number" min="1" step="1" value=${options.maxTokens} onInput=${set("maxTokens")} />
      </div>
      <${JsonArea} label=${t("moreParameters")} value=${options.more} onInput=${set("more")} rows=${3}
        marks=${markShape(options.more, "object")} placeholder='{"seed": 7}' />
      <${Checkbox} label=${t("keepRunning")} hint=${t("keepRunningHint")} checked=${options.keepRunning} onChange=${set("keepRunning")} />
    </details>
  </details>`;
}

/** The servers whose tools the gateway runs. @param {{servers: Record<string, string[]>, chosen: string[], onChange: (chosen: string[]) => void}} props */
function Servers({ servers, chosen, onChange }) {
  const names = Object.keys(servers);
  if (!names.length) return null;
  return html`<fieldset><legend>${t("servers")}</legend>
    ${names.map((name) => html`<${Checkbox} key=${name} label=${name} hint=${servers[name].join(", ")} checked=${chosen.includes(name)}
      onChange=${(/** @type {boolean} */ checked) => onChange(names.filter((one) => (one === name ? checked : chosen.includes(one))))} />`)}
  </fieldset>`;
}

/** A list of the models; a field where there are none, or for one that the list lacks. @param {{models: string[] | null, model: string, onChange: (model: string) => void}} props */
function ModelPicker({ models, model, onChange }) {
  const [writes, setWrites] = useState(false);
  if (!models) return html`<${Select} label=${t("model")} value=${model} options=${[[model, model]]} onChange=${onChange} disabled />`;
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
