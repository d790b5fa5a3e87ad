/** @file Connects a model server: tests its address, and writes the lines of `parley.toml`. */

import { asGatewayError, store } from "../conversation.js";
import { sendJson } from "../gateway.js";
import { html, useState } from "../html.js";
import { useStore } from "../store.js";
import { t } from "../texts.js";
import { keyVariable, writeToml } from "../toml.js";
import { CopyButton, Field, Select, useId } from "./controls.js";
import { Code } from "./text.js";

/** The addresses at which servers listen by default. @type {Record<string, string>} */
const DEFAULT_URLS = {
  vllm: "http://127.0.0.1:8000/v1",
  sglang: "http://127.0.0.1:30000/v1",
  llamacpp: "http://127.0.0.1:8080/v1",
  ollama: "http://127.0.0.1:11434/v1",
  lmstudio: "http://127.0.0.1:1234/v1",
};

/** @typedef {{works: boolean, lines: string[], models: string[], working_url: string | null}} CheckResult */

export function ConnectView() {
  const { gateway } = useStore(store);
  const [name, setName] = useState("local");
  const [kind, setKind] = useState("openai_compatible");
  const [baseUrl, setBaseUrl] = useState("http://127.0.0.1:8001/v1");
  const [apiKey, setApiKey] = useState("");
  const [model, setModel] = useState("");
  const [alias, setAlias] = useState("");
  const [result, setResult] = useState(/** @type {CheckResult | null} */ (null));
  const [error, setError] = useState(/** @type {import("../gateway.js").GatewayError | null} */ (null));
  const [busy, setBusy] = useState(false);
  const listId = useId("found");

  const check = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    setResult(null);
    try {
      /** @type {CheckResult} */
      const found = await sendJson("POST", "v1/upstreams/check", { base_url: baseUrl, ...(apiKey && { api_key: apiKey }) });
      setResult(found);
      if (found.models.length === 1 && !model) setModel(found.models[0]);
    } catch (thrown) {
      setError(asGatewayError(thrown));
    }
    setBusy(false);
  };
  const chooseKind = (/** @type {string} */ chosen) => {
    setKind(chosen);
    if (DEFAULT_URLS[chosen]) setBaseUrl(DEFAULT_URLS[chosen]);
  };
  const toml = writeToml({ name, baseUrl, kind, hasKey: apiKey !== "", model, alias });
  const shell = `PARLEY_UPSTREAM_URL='${baseUrl}'${kind === "openai_compatible" ? "" : ` PARLEY_UPSTREAM_KIND=${kind}`}${apiKey ? ` PARLEY_UPSTREAM_API_KEY="$${keyVariable(name)}"` : ""} make serve`;
  return html`
    <h1>${t("connectServer")}</h1>
    <p class="muted">${t("connectText")}</p>
    <div class="sides">
      <form onSubmit=${check} aria-label=${t("connectServer")}>
        <h2>1. ${t("address")}</h2>
        <${Select} label=${t("kind")} value=${kind} options=${gateway.kinds.map((one) => [one, one])} onChange=${chooseKind} hint=${t("kindHint")} />
        <${Field} label=${t("baseUrl")} type="url" required value=${baseUrl} onInput=${setBaseUrl} spellcheck="false"
          wrong=${error?.violations.find((one) => one.param === "base_url")?.message} />
        <${Field} label=${t("serverKey")} type="password" autocomplete="off" value=${apiKey} onInput=${setApiKey} hint=${t("serverKeyHint")} />
        <p><button type="submit" class="primary" disabled=${busy}>${busy ? t("testing") : t("test")}</button></p>
        ${result && html`<${Result} result=${result} onUse=${setBaseUrl} />`}
        ${error && html`<div class="problem" role="alert"><p>${error.message}</p></div>`}
        <h2>2. ${t("names")}</h2>
        <${Field} label=${t("upstreamName")} value=${name} onInput=${setName} />
        <${Field} label=${t("serverModel")} value=${model} onInput=${setModel} list=${listId} hint=${t("serverModelHint")} />
        <datalist id=${listId}>${(result?.models ?? []).map((one) => html`<option value=${one}></option>`)}</datalist>
        ${model && html`<${Field} label=${t("alias")} value=${alias} onInput=${setAlias} placeholder=${model} hint=${t("aliasHint")} />`}
      </form>
      <section aria-label=${t("write")}>
        <h2>3. ${t("write")}</h2>
        <div class="label-row"><span><code>parley.toml</code></span><${CopyButton} text=${toml} /></div>
        <${Code} text=${toml} language="ini" label="parley.toml" />
        ${apiKey && html`<p class="hint">${t("keyVariableHint", { variable: keyVariable(name) })}</p>`}
        <div class="label-row"><span>${t("orWithoutFile")}</span><${CopyButton} text=${shell} /></div>
        <${Code} text=${shell} language="bash" label=${t("orWithoutFile")} />
        <p class="hint">${gateway.demo ? t("restartHint") : t("reloadHint")}</p>
      </section>
    </div>`;
}

/** @param {{result: CheckResult, onUse: (url: string) => void}} props */
function Result({ result, onUse }) {
  const { works, lines, working_url: url } = result;
  return html`<div class=${works ? "success" : "problem"} role="status">
    ${lines.map((line) => html`<p>${line}</p>`)}
    ${url && html`<button type="button" onClick=${() => onUse(url)}>${t("useUrl", { url })}</button>`}
  </div>`;
}
