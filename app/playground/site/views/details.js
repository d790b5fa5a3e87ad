/** @file Everything that is known about one reply: figures, frames, headers, and its request as code. */

import { makeBody, store } from "../conversation.js";
import { CODE_LANGUAGES, writeRequest } from "../code.js";
import { address } from "../gateway.js";
import { html, useState } from "../html.js";
import { measure } from "../run.js";
import { useStore } from "../store.js";
import { number, t } from "../texts.js";
import { CopyButton, Select, Tabs } from "./controls.js";
import { GapPlot } from "./gap_plot.js";
import { Code } from "./text.js";

/** @typedef {import("../run.js").Run} Run */

const MAX_FRAMES = 400;

export function Details() {
  const { runs, selectedRun, messages } = useStore(store);
  const index = selectedRun ?? runs.length - 1;
  const run = runs[index];
  const choose = (/** @type {string} */ value) => store.set({ selectedRun: Number(value) });
  const tabs = [
    { id: "figures", text: t("figures"), body: () => (run ? html`<${Figures} run=${run} />` : html`<p class="muted">${t("noReplyYet")}</p>`) },
    { id: "frames", text: t("frames"), body: () => (run ? html`<${Frames} run=${run} />` : html`<p class="muted">${t("noReplyYet")}</p>`) },
    { id: "request", text: t("request"), body: () => html`<${RequestCode} run=${run} messages=${messages} />` },
  ];
  return html`<div class="panel">
    ${runs.length > 1 && html`<${Select} label=${t("reply")} value=${String(index)} onChange=${choose}
      options=${runs.map((one, at) => [String(at), t("replyNumber", { number: one.number })])} />`}
    <${Tabs} label=${t("details")} tabs=${tabs} />
  </div>`;
}

/** @param {{run: Run}} props */
function Figures({ run }) {
  const { firstToken, total, tokensPerSecond, gaps, usage } = measure(run);
  const { headers, reply } = run;
  const cache = headers["x-parley-cache"];
  const age = headers.age;
  /** @type {[string, any][]} */
  const rows = [
    [t("state"), t(`state_${run.state}`)],
    [t("finishReason"), reply.finishReason && html`<code>${reply.finishReason}</code>`],
    [t("cacheState"), cache && html`<code>${cache}</code> ${t(`cache_why_${cache}`, { age: age ?? "" })}`],
    [t("upstreamAttempts"), headers["x-parley-attempts"]?.split(", ").map((one) => html`<code class="attempt">${one}</code>`)],
    [t("inputTokens"), usage.input !== undefined && number(usage.input)],
    [t("cachedTokens"), usage.cached ? number(usage.cached) : null],
    [t("outputTokens"), usage.output !== undefined && number(usage.output)],
    [t("reasoningTokens"), usage.reasoning ? number(usage.reasoning) : null],
    [t("cost"), usage.cost !== undefined && number(usage.cost, 6)],
    [t("resumes"), run.resumes || null],
    [t("warnings"), run.reply.warnings.length || null],
    [t("rateLimit"), headers["x-ratelimit-remaining-requests"] &&
      `${headers["x-ratelimit-remaining-requests"]} / ${headers["x-ratelimit-limit-requests"]}`],
    [t("responseId"), run.responseId && html`<code>${run.responseId}</code>`],
    [t("requestId"), headers["x-request-id"] && html`<code>${headers["x-request-id"]}</code>`],
  ];
  return html`
    <dl class="tiles">
      <div><dt>${t("firstToken")}</dt><dd>${firstToken === null ? "–" : `${number(firstToken)} ms`}</dd></div>
      <div><dt>${t("tokensPerSecond")}</dt><dd>${tokensPerSecond === null ? "–" : number(tokensPerSecond, 1)}</dd></div>
      <div><dt>${t("total")}</dt><dd>${total === null ? "…" : `${number(total)} ms`}</dd></div>
    </dl>
    <${GapPlot} gaps=${gaps} />
    <dl class="rows">${rows.filter(([, value]) => value).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** @param {{run: Run}} props */
function Frames({ run }) {
  const shown = run.frames.slice(-MAX_FRAMES);
  const text = () => run.frames.map((frame) => `${frame.text}\n\n`).join("");
  return html`
    <p class="label-row"><span class="muted">${t("frameCount", { count: run.frames.length })}</span> <${CopyButton} text=${text} /></p>
    <ol class="frames" start=${run.frames.length - shown.length + 1} tabindex="0" aria-label=${t("frames")}>
      ${shown.map((frame) => html`<li><time>${number(frame.at)} ms</time><pre>${frame.text}</pre></li>`)}
    </ol>`;
}

/** The request of a reply; before there is one, of the conversation as it stands. @param {{run?: Run, messages: any[]}} props */
function RequestCode({ run, messages }) {
  const [language, setLanguage] = useState(/** @type {import("../code.js").Language} */ ("curl"));
  const { key } = store.get();
  let text;
  try {
    text = writeRequest(language, address("v1/chat"), run?.body ?? makeBody(messages), key !== "");
  } catch (error) {
    return html`<p class="wrong">${error instanceof Error ? error.message : String(error)}</p>`;
  }
  const short = text.replace(/(base64,|"data": ")[A-Za-z0-9+/=]{200,}/g, "$1…");
  return html`
    <div class="label-row">
      <${Select} label=${t("language")} hidesLabel value=${language} options=${Object.entries(CODE_LANGUAGES)} onChange=${setLanguage} />
      <${CopyButton} text=${text} />
    </div>
    <${Code} text=${short} language=${language === "curl" ? "bash" : language} label=${t("request")} />`;
}
