/** @file Connects a model server: tests its address, and writes the lines of `parley.toml`. */

import { asGatewayError, store } from "../conversation.js";
import { sendJson } from "../gateway.js";
import { html, useState } from "../html.js";
import { useStore } from "../store.js";
import { t } from "../texts.js";
import { keyVariable, writeShell, writeToml } from "../toml.js";
import { CopyButton, Field, Select } from "./controls.js";
import { Problem } from "./problem.js";
import { Code } from "./text.js";

/** The addresses at which servers listen by default. @type {Record<string, string>} */
const DEFAULT_URLS = {
  vllm: "http://127.0.0.1:8000/v1",
  sglang: "http://127.0.0.1:30000/v1",
  llamacpp: "http://127.0.0.1:8080/v1",
  ollama: "http://127.0.0.1:11434/v1",
  lmstudio: "http://127.0.0.1:1234/v1",
};

/**
 * @typedef {object} CheckResult
 * @property {"works" | "no_list" | "wrong_base_url" | "key_refused" | "failed"} result
 * @property {string | null} kind the kind of server that its list suggests
 * @property {string[]} lines
 * @property {string[]} models
 * @property {string | null} working_url
 */

const UNKNOWN_KIND = "openai_compatible";

export function ConnectView() {
  const { gateway } = useStore(store);
  const [name, setName] = useState("local");
  const [kind, setKind] = useState(UNKNOWN_KIND);
  const [baseUrl, setBaseUrl] = useState("http://127.0.0.1:8001/v1");
  const [apiKey, setApiKey] = useState("");
  const [model, setModel] = useState("");
  const [alias, setAlias] = useState("");
  const [result, setResult] = useState(/** @type {CheckResult | null} */ (null));
  const [error, setError] = useState(/** @type {import("../gateway.js").GatewayError | null} */ (null));
  const [busy, setBusy] = useState(false);

  /** What is written holds for a server that has been tested, so a change of the server needs a new test. */
  const forget = () => {
    setResult(null);
    setError(null);
    setModel("");
  };
  const check = async (/** @type {string} */ url) => {
    forget();
    setBusy(true);
    try {
      /** @type {CheckResult} */
      const found = await sendJson("POST", "v1/upstreams/check", { base_url: url, ...(apiKey && { api_key: apiKey }) });
      setResult(found);
      if (found.models.length === 1) setModel(found.models[0]);
      if (found.kind && kind === UNKNOWN_KIND) setKind(found.kind);
    } catch (thrown) {
      setError(asGatewayError(thrown));
    }
    setBusy(false);
  };
  const changeUrl = (/** @type {string} */ url) => {
    setBaseUrl(url);
    forget();
  };
  const chooseKind = (/** @type {string} */ chosen) => {
    setKind(chosen);
    if (DEFAULT_URLS[chosen] && !result) changeUrl(DEFAULT_URLS[chosen]);
  };
  const useUrl = (/** @type {string} */ url) => {
    setBaseUrl(url);
    check(url);
  };
  const answers = result?.result === "works" || result?.result === "no_list";
  const works = result?.result === "works" || (result?.result === "no_list" && model.trim() !== "");
  return html`
    <h1>${t("connectServer")}</h1>
    <p class="muted">${t("connectText")}</p>
    <div class="sides">
      <form onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), check(baseUrl))} aria-label=${t("connectServer")}>
        <h2>1. ${t("address")}</h2>
        <${Select} label=${t("kind")} value=${kind} options=${gateway.kinds.map((one) => [one, one])} onChange=${chooseKind} hint=${t("kindHint")} />
        <${Field} label=${t("baseUrl")} type="url" required value=${baseUrl} onInput=${changeUrl} spellcheck="false"
          wrong=${error?.violations.find((one) => one.param === "base_url")?.message} />
        <${Field} label=${t("serverKey")} type="password" autocomplete="off" value=${apiKey} hint=${t("serverKeyHint")}
          onInput=${(/** @type {string} */ key) => (setApiKey(key), forget())} />
        <p><button type="submit" class="primary" disabled=${busy}>${busy ? t("testing") : t("test")}</button></p>
        ${result && html`<${Result} result=${result} onUse=${useUrl} />`}
        ${error && html`<${Problem} error=${error} />`}
        ${answers && html`<${Names} models=${result.models} name=${name} onName=${setName} model=${model} onModel=${setModel} alias=${alias} onAlias=${setAlias} />`}
      </form>
      <section aria-label=${t("write")}>
        <h2>${answers ? 3 : 2}. ${t("write")}</h2>
        ${works
          ? html`<${Lines} connection=${{ name, baseUrl, kind, hasKey: apiKey !== "", model: model.trim(), alias }} />`
          : html`<p class="muted">${result?.result === "no_list" ? t("nameModelFirst") : t("testFirst")}</p>`}
      </section>
    </div>`;
}

/**
 * The names in the configuration. Models are those that the server lists; one that has no list needs a name.
 * @param {{models: string[], name: string, onName: (name: string) => void, model: string, onModel: (model: string) => void,
 *   alias: string, onAlias: (alias: string) => void}} props
 */
function Names({ models, name, onName, model, onModel, alias, onAlias }) {
  return html`<h2>2. ${t("names")}</h2>
    <${Field} label=${t("upstreamName")} value=${name} onInput=${onName} />
    ${models.length
      ? html`<${Select} label=${t("serverModel")} value=${model} onChange=${onModel} hint=${t("serverModelHint")}
          options=${[["", t("allModels")], ...models.map((one) => [one, one])]} />`
      : html`<${Field} label=${t("serverModel")} value=${model} onInput=${onModel} />`}
    ${model && html`<${Field} label=${t("alias")} value=${alias} onInput=${onAlias} placeholder=${model} hint=${t("aliasHint")} />`}`;
}

/** @param {{connection: import("../toml.js").Connection}} props */
function Lines({ connection }) {
  const { gateway } = useStore(store);
  const toml = writeToml(connection);
  const shell = writeShell(connection, gateway.command);
  const variable = keyVariable(connection.name);
  return html`
    <div class="label-row"><span><code>parley.toml</code></span><${CopyButton} text=${toml} /></div>
    <${Code} text=${toml} language="ini" label="parley.toml" />
    ${connection.hasKey && html`<p class="hint">${t("keyVariableHint", { variable })}</p>`}
    <p class="hint">${gateway.demo ? t("restartHint") : t("reloadHint")}</p>
    <div class="label-row"><span>${t("orWithoutFile")}</span><${CopyButton} text=${shell} /></div>
    <${Code} text=${shell} language="bash" label=${t("orWithoutFile")} />
    <p class="hint">${t("commandHint")}</p>`;
}

/** What was found in the page's language; below, what the gateway says of it. @param {{result: CheckResult, onUse: (url: string) => void}} props */
function Result({ result, onUse }) {
  const { result: word, lines, models, kind, working_url: url } = result;
  const works = word === "works";
  return html`<div class=${works ? "success" : "problem"} role="status">
    <p><b>${t(`check_${word}`)}</b></p>
    ${works
      ? html`<p>${models.length ? `${t("models")}: ${models.join(", ")}` : t("listsNone")}</p>`
      : lines.map((line) => html`<p>${line}</p>`)}
    ${kind && html`<p>${t("looksLike", { kind })}</p>`}
    ${url && html`<div class="buttons"><button type="button" class="primary" onClick=${() => onUse(url)}>${t("useUrl", { url })}</button></div>`}
  </div>`;
}
