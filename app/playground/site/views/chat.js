/** @file The conversation, its options and the details of its replies. */

import { answerCalls, loadModels, resume, retry, sendUser, setMessages, setOptions, start, store } from "../conversation.js";
import { EXAMPLE_FUNCTIONS, EXAMPLES, FIRST_QUESTIONS } from "../formats/examples.js";
import { FORMATS } from "../formats/names.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";
import { describe } from "../formats/describe.js";
import { useStore } from "../store.js";
import { currentLanguage, t } from "../texts.js";
import { Composer } from "./composer.js";
import { TextArea } from "./controls.js";
import { Details } from "./details.js";
import { Guard } from "./guard.js";
import { MessageView } from "./message.js";
import { Options } from "./options.js";
import { PartView } from "./parts.js";

const FOLLOWED_PIXELS = 150;
const BOTTOM_PIXELS = 16;

export function ChatView() {
  const state = useStore(store);
  const { messages, run, problem, notices, gateway, options } = state;
  const [editing, setEditing] = useState(false);
  const calls = run ? [] : findOpenCalls(messages);
  const openCalls = calls.map((call) => call.id).join();
  const [writesInstead, setWritesInstead] = useState("");
  const section = useFollowedEnd([messages, run?.frames.length, run?.state]);
  return html`
    <aside class="options" aria-label=${t("options")}><${Options} /></aside>
    <h1 class="visually-hidden">${t("chat")}</h1>
    <section class="conversation" ref=${section} aria-label=${t("conversation")}>
      ${!messages.length && !run && !editing && html`<${FirstScreen} demo=${gateway.demo} />`}
      <${Toolbar} editing=${editing} onEdit=${() => setEditing(!editing)} />
      ${editing
        ? html`<${ConversationEditor} onDone=${() => setEditing(false)} />`
        : html`<div class="messages" role="log" aria-label=${t("messages")} aria-live="off">
            ${messages.map((message, index) => html`<${MessageView} key=${index} message=${message} index=${index}
              mistakes=${state.mistakes[index]} language=${currentLanguage()} />`)}
            ${run && html`<${LiveReply} run=${run} />`}
          </div>`}
      ${notices.length > 0 && html`<ul class="notices">${notices.map((one) => html`<li>${one}</li>`)}</ul>`}
      ${problem && html`<${Problem} problem=${problem} canRetry=${messages.length > 0} />`}
      ${state.modelsError && state.modelsError.status !== 401 &&
        html`<div class="problem" role="alert"><p>${state.modelsError.message}</p>
          <button type="button" onClick=${loadModels}>${t("retry")}</button></div>`}
      ${!editing && (calls.length > 0 && writesInstead !== openCalls
        ? html`<${CallAnswers} key=${openCalls} calls=${calls} onWriteInstead=${() => setWritesInstead(openCalls)} />`
        : html`<${Composer} busy=${run?.state === "running"} />`)}
    </section>
    <aside class="details" aria-label=${t("details")}><${Details} /></aside>
  `;
}

/**
 * Return the ref of an element whose end stays in view while it grows, unless the reader has scrolled away from it.
 * @param {any[]} changes
 */
function useFollowedEnd(changes) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const follows = useRef(true);
  const below = () => (ref.current?.getBoundingClientRect().bottom ?? 0) - innerHeight;
  useEffect(() => {
    const onScroll = () => void (follows.current = below() < FOLLOWED_PIXELS);
    addEventListener("scroll", onScroll, { passive: true });
    return () => removeEventListener("scroll", onScroll);
  }, []);
  useLayoutEffect(() => {
    if (follows.current && below() > 0) scrollBy(0, below() + BOTTOM_PIXELS);
  }, changes);
  return ref;
}

/** @param {{editing: boolean, onEdit: () => void}} props */
function Toolbar({ editing, onEdit }) {
  const { messages, options, run } = useStore(store);
  const busy = run?.state === "running";
  const loadExample = () => {
    setMessages(EXAMPLES[options.format]);
    store.set({ options: { ...store.get().options, functions: JSON.stringify(EXAMPLE_FUNCTIONS, null, 2) } });
  };
  return html`<div class="toolbar" role="group" aria-label=${t("conversation")}>
    <button type="button" class="quiet" onClick=${loadExample}>${t("example")}</button>
    <button type="button" class="quiet" aria-pressed=${String(editing)} onClick=${onEdit}>${t("asJson")}</button>
    ${messages.length > 0 && !busy && html`
      <button type="button" class="quiet" onClick=${retry}>${t("askAgain")}</button>
      <button type="button" class="quiet" onClick=${() => setMessages([])}>${t("clear")}</button>`}
  </div>`;
}

/** The first screen: examples to click; where only the demo model is there, also the way to another server. @param {{demo: boolean}} props */
function FirstScreen({ demo }) {
  return html`<div class="first-run">
    <h2>${demo ? t("firstRun") : t("welcome")}</h2>
    <p>${demo ? t("firstRunText") : t("welcomeText")}</p>
    <h3>${t("tryThis")}</h3>
    <ul class="examples">${FIRST_QUESTIONS.map((one) => html`<li><button type="button" onClick=${() => ask(one)}>
      <b>${t(`try_${one.id}`)}</b><small>${t(`try_${one.id}_text`)}</small></button></li>`)}</ul>
    ${demo && html`<p><a class="button primary" href="#connect">${t("connectServer")}</a></p>`}
  </div>`;
}

/** @param {typeof FIRST_QUESTIONS[number]} question */
function ask({ text, functions, thinking, file }) {
  setOptions({
    functions: functions ? JSON.stringify(EXAMPLE_FUNCTIONS, null, 2) : "",
    thinking: /** @type {"" | "on"} */ (thinking ?? ""),
  });
  sendUser(text, file ? [file()] : []);
}

/** The whole conversation as JSON, to write or paste. @param {{onDone: () => void}} props */
function ConversationEditor({ onDone }) {
  const { messages, options } = store.get();
  const [draft, setDraft] = useState(JSON.stringify(messages, null, 2));
  const [wrong, setWrong] = useState(/** @type {string | null} */ (null));
  const save = () => {
    try {
      const value = JSON.parse(draft);
      const list = Array.isArray(value) ? value : (value.messages ?? value.input);
      if (!Array.isArray(list)) throw new Error(t("notAList"));
      setMessages(list);
      onDone();
    } catch (error) {
      setWrong(error instanceof Error ? error.message : String(error));
    }
  };
  return html`<div class="editor">
    <${TextArea} label=${t("messagesIn", { format: FORMATS[options.format] })} value=${draft} wrong=${wrong} rows=${24} onInput=${setDraft}
      action=${html`<button type="button" class="quiet" onClick=${() => setDraft(JSON.stringify(EXAMPLES[options.format], null, 2))}>${t("example")}</button>`} />
    <p><button type="button" class="primary" onClick=${save}>${t("save")}</button>
      <button type="button" onClick=${onDone}>${t("cancel")}</button></p>
  </div>`;
}

/** @param {{run: import("../run.js").Run}} props */
function LiveReply({ run }) {
  const { reply, state } = run;
  return html`<article class="message assistant live" aria-label=${t("reply")} aria-busy=${String(state === "running")}>
    <header><h2>${t("assistant")}</h2>
      <div class="actions">${state === "running" && html`
        <button type="button" class="quiet" title=${t("cutHint")} onClick=${() => run.cut()}>${t("cut")}</button>`}</div>
    </header>
    ${reply.parts.map((part, index) => html`<${Guard} key=${index} source=${part.text}><${PartView} part=${part} role="assistant" /><//>`)}
    ${state === "running" && !reply.parts.length && html`<p class="waiting"><span class="growing"></span> ${t("waiting")}</p>`}
    ${state === "cut" && html`<div class="problem" role="alert"><p>${t("cutAfter", { count: run.frames.length })}</p>
      ${run.canResume && html`<button type="button" class="primary" onClick=${resume}>${t("resume")}</button>`}
      <button type="button" onClick=${start}>${t("retry")}</button></div>`}
    ${state === "failed" && html`<div class="problem" role="alert">
      <p>${reply.error?.message ?? run.error?.message}</p>
      ${reply.error?.code && html`<p class="muted"><code>${reply.error.code}</code></p>`}
      <button type="button" class="primary" onClick=${start}>${t("retry")}</button></div>`}
    ${state === "stopped" && html`<div class="stopped"><p>${t("replyStopped")}</p>
      <button type="button" onClick=${start}>${t("retry")}</button></div>`}
  </article>`;
}

/** @param {{problem: {message: string, error?: import("../gateway.js").GatewayError}, canRetry: boolean}} props */
function Problem({ problem, canRetry }) {
  const { error } = problem;
  return html`<div class="problem" role="alert">
    <p>${problem.message}</p>
    ${error && html`<p class="muted">${error.status > 0 && html`<code>${error.status}</code>`} <code>${error.code}</code>
      ${error.requestId && html` <small>${error.requestId}</small>`}
      ${error.upstream && html` <small>${error.upstream.name ?? ""} ${error.upstream.cause ?? ""}</small>`}</p>`}
    ${canRetry && html`<button type="button" onClick=${start}>${t("retry")}</button>`}
  </div>`;
}

/** @param {any[]} messages @returns {import("../reply.js").Part[]} the calls that have no result yet */
function findOpenCalls(messages) {
  /** @type {Map<string, import("../reply.js").Part>} */
  const open = new Map();
  for (const message of messages) {
    for (const part of describe(message).parts) {
      if (part.kind === "call") open.set(part.id ?? part.name ?? "", part);
      else if (part.kind === "result") open.delete(part.id ?? part.name ?? "");
    }
  }
  return [...open.values()];
}

/** It takes the place of the composer: the results of the calls are the next step. @param {{calls: import("../reply.js").Part[], onWriteInstead: () => void}} props */
function CallAnswers({ calls, onWriteInstead }) {
  const [texts, setTexts] = useState(calls.map(() => ""));
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    answerCalls(calls.map(({ id, name }, index) => ({ id: id ?? "", name: name ?? "", text: texts[index] })));
  };
  return html`<form class="answers" onSubmit=${send}>
    ${calls.map((call, index) => html`<${TextArea} label=${t("resultOf", { name: call.name ?? "" })} value=${texts[index]} rows=${2}
      placeholder='{"temperature": 21, "sky": "sunny"}' onInput=${(/** @type {string} */ text) => setTexts(texts.with(index, text))} />`)}
    <div class="buttons"><button type="button" class="quiet" onClick=${onWriteInstead}>${t("writeInstead")}</button>
      <button type="submit" class="primary last">${t("sendResults")}</button></div>
  </form>`;
}
