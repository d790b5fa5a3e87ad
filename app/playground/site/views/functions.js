/** @file The functions of the request: a list, each with a form, or all of them as JSON. */

import { setOptions } from "../conversation.js";
import { EXAMPLE_FUNCTIONS } from "../formats/examples.js";
import { change, fitsForm, freeName, readParameters, TYPES, unwrap, writeParameters } from "../formats/functions.js";
import { html, useEffect, useState } from "../html.js";
import { markShape } from "../json_marks.js";
import { t } from "../texts.js";
import { Checkbox, Field, Select } from "./controls.js";
import { JsonArea } from "./json_area.js";

/** @param {any[]} list */
const write = (list) => setOptions({ functions: list.length ? JSON.stringify(list, null, 2) : "" });

/** @param {{text: string}} props the functions as JSON */
export function Functions({ text }) {
  const [asJson, setAsJson] = useState(false);
  const [opened, setOpened] = useState(-1);
  const marks = markShape(text, "list");
  const list = marks.length || !text.trim() ? [] : JSON.parse(text);
  const showsJson = asJson || marks.length > 0;
  const add = () => {
    const name = freeName("function", list.filter(fitsForm).map((/** @type {any} */ one) => unwrap(one).name));
    write([...list, { name, description: "", parameters: { type: "object", properties: {} } }]);
    setOpened(list.length);
  };
  const buttons = html`<span class="buttons">
    <button type="button" class="quiet" onClick=${() => write(text.trim() ? [] : EXAMPLE_FUNCTIONS)}>${text.trim() ? t("clear") : t("example")}</button>
    <button type="button" class="quiet" aria-pressed=${String(showsJson)} disabled=${marks.length > 0}
      aria-label=${t("functionsAsJson")} onClick=${() => setAsJson(!asJson)}>JSON</button></span>`;
  if (showsJson) {
    return html`<${JsonArea} label=${t("functions")} value=${text} marks=${marks} rows=${10} placeholder="[]" action=${buttons}
      onInput=${(/** @type {string} */ functions) => setOptions({ functions })} />`;
  }
  return html`<section class="field functions" aria-label=${t("functions")}>
    <div class="label-row"><span>${t("functions")}</span>${buttons}</div>
    ${list.map((/** @type {any} */ entry, /** @type {number} */ index) => html`<${FunctionEntry} key=${index} entry=${entry} open=${index === opened}
      onChange=${(/** @type {any} */ changed) => write(list.with(index, changed))}
      onRemove=${() => (setOpened(-1), write(list.toSpliced(index, 1)))} />`)}
    <button type="button" onClick=${add}>${t("addFunction")}</button>
  </section>`;
}

/** @param {{entry: any, open: boolean, onChange: (entry: any) => void, onRemove: () => void}} props */
function FunctionEntry({ entry, open, onChange, onRemove }) {
  const remove = html`<button type="button" onClick=${onRemove}>${t("removeFunction")}</button>`;
  if (!fitsForm(entry)) {
    return html`<details class="function"><summary><code>${JSON.stringify(entry)}</code></summary><p class="hint">${t("onlyAsJson")}</p>${remove}</details>`;
  }
  const { name, description } = unwrap(entry);
  const parameters = readParameters(entry);
  const set = (/** @type {string} */ key) => (/** @type {string} */ value) => onChange(change(entry, { [key]: value }));
  return html`<details class="function" open=${open}>
    <summary><code>${asText(name)}</code> <span class="muted">(${(parameters ?? []).map((row) => row.name).join(", ")})</span></summary>
    <${Field} label=${t("functionName")} value=${asText(name)} onInput=${set("name")} spellcheck="false" autocomplete="off"
      wrong=${asText(name).trim() ? null : t("nameMissing")} />
    <${Field} label=${t("description")} value=${asText(description)} onInput=${set("description")} />
    ${parameters
      ? html`<${Parameters} rows=${parameters} onChange=${(/** @type {any} */ rows) => onChange(writeParameters(entry, rows))} />`
      : html`<p class="hint">${t("schemaOnlyAsJson")}</p>`}
    ${remove}
  </details>`;
}

/** @param {unknown} value @returns {string} */
const asText = (value) => (typeof value === "string" ? value : "");

/** @param {{rows: import("../formats/functions.js").Parameter[], onChange: (rows: any[]) => void}} props */
function Parameters({ rows, onChange }) {
  const names = rows.map((row) => row.name);
  const add = () => onChange([...rows, { name: freeName("parameter", names), schema: { type: "string" }, required: false }]);
  return html`<fieldset><legend>${t("functionParameters")}</legend>
    ${rows.map((row, index) => html`<${ParameterRow} key=${index} row=${row} taken=${names.toSpliced(index, 1)}
      onChange=${(/** @type {any} */ changed) => onChange(rows.with(index, { ...row, ...changed }))}
      onRemove=${() => onChange(rows.toSpliced(index, 1))} />`)}
    <button type="button" onClick=${add}>${t("addParameter")}</button>
  </fieldset>`;
}

/** @param {{row: import("../formats/functions.js").Parameter, taken: string[], onChange: (changes: any) => void, onRemove: () => void}} props */
function ParameterRow({ row, taken, onChange, onRemove }) {
  const { name, schema, required } = row;
  const type = TYPES.includes(schema.type) ? schema.type : "";
  const types = [...TYPES.map((one) => [one, one]), ...(type ? [] : [["", t("otherSchema")]])];
  const setSchema = (/** @type {any} */ changes) => onChange({ schema: { ...schema, ...changes } });
  return html`<div class="parameter" role="group" aria-label=${name}>
    <div class="pair">
      <${NameField} name=${name} taken=${taken} onChange=${(/** @type {string} */ changed) => onChange({ name: changed })} />
      <${Select} label=${t("type")} value=${type} options=${types} onChange=${(/** @type {string} */ chosen) => chosen && setSchema({ type: chosen })} />
    </div>
    <${Field} label=${t("description")} value=${asText(schema.description)} onInput=${(/** @type {string} */ description) => setSchema({ description })} />
    <div class="buttons"><${Checkbox} label=${t("required")} checked=${required} onChange=${(/** @type {boolean} */ checked) => onChange({ required: checked })} />
      <button type="button" class="last" aria-label=${t("removeParameter", { name })} onClick=${onRemove}>${t("remove")}</button></div>
  </div>`;
}

/** A name is written to the schema only if no other parameter has it. @param {{name: string, taken: string[], onChange: (name: string) => void}} props */
function NameField({ name, taken, onChange }) {
  const [draft, setDraft] = useState(name);
  useEffect(() => setDraft(name), [name]);
  const problem = !draft.trim() ? t("nameMissing") : taken.includes(draft) ? t("nameTaken") : null;
  const input = (/** @type {string} */ text) => {
    setDraft(text);
    if (text.trim() && !taken.includes(text)) onChange(text);
  };
  return html`<${Field} label=${t("functionName")} value=${draft} onInput=${input} wrong=${problem} spellcheck="false" autocomplete="off" />`;
}
