/** @file The conversation, its options and the details of its replies. */

import { answerCalls, findViolations, loadModels, resume, retry, sendUser, setMessages, setOptions, start, store } from "../conversation.js";
import { EXAMPLE_FUNCTIONS, FIRST_QUESTIONS } from "../formats/examples.js";
import { FORMATS } from "../formats/index.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";
import { findCalls, findOpenCalls, nameResult } from "../formats/describe.js";
import { markMessages, markSyntax } from "../json_marks.js";
import { useStore } from "../store.js";
import { currentLanguage, t } from "../texts.js";
import { Composer } from "./composer.js";
import { TextArea } from "./controls.js";
import { Details } from "./details.js";
import { Guard } from "./guard.js";
import { JsonArea } from "./json_area.js";
import { MessageView } from "./message.js";
import { Options } from "./options.js";
import { PartView } from "./parts.js";
import { Problem } from "./problem.js";

const FOLLOWED_PIXELS = 150;
const BOTTOM_PIXELS = 16;

export function ChatView() {
  const state = useStore(store);
  const { messages, run, problem, notices, gateway, options } = state;
  const [editing, setEditing] = useState(false);
  const calls = run ? [] : findOpenCalls(messages);
  const allCalls = findCalls(messages);
  const openCalls = calls.map((call) => call.id).join();
  const [writesInstead, setWritesInstead] = useState("");
  const section = useFollowedEnd(messages.length > 0 || run !== null, run);
  return html`
    <aside class="options" aria-label=${t("options")}><${Options} /></aside>
    <h1 class="visually-hidden">${t("chat")}</h1>
    <section id="conversation" tabindex="-1" class="conversation" ref=${section} aria-label=${t("conversation")}>
      <${Toolbar} editing=${editing} onEdit=${() => setEditing(!editing)} />
      ${!messages.length && !run && !editing && html`<${FirstScreen} demo=${gateway.demo} />`}
      ${editing
        ? html`<${ConversationEditor} onDone=${() => setEditing(false)} />`
        : html`<div class="messages" role="log" aria-label=${t("messages")} aria-live="off">
            ${messages.map((message, index) => html`<${MessageView} key=${index} message=${message} index=${index}
              mistakes=${state.mistakes[index]} losses=${state.losses[index]} calls=${allCalls} language=${currentLanguage()} />`)}
            ${run && html`<${LiveReply} run=${run} calls=${allCalls} />`}
          </div>`}
      ${state.notKept && messages.length > 0 && html`<p class="notices">${t("notKept", { reason: state.notKept })}</p>`}
      ${notices.length > 0 && html`<ul class="notices">${notices.map((one) => html`<li>${one}</li>`)}</ul>`}
      ${problem && html`<${Problem} ...${problem}>
        ${messages.length > 0 && html`<button type="button" onClick=${start}>${t("retry")}</button>`}<//>`}
      ${(state.modelsError?.status === 401 || (gateway.needs_key && !state.key)) &&
        html`<div class="problem" role="alert"><p><b>${t("enterKey")}</b></p><p class="detail">${t("enterKeyText")}</p></div>`}
      ${state.modelsError && state.modelsError.status !== 401 &&
        html`<${Problem} error=${state.modelsError}><button type="button" onClick=${loadModels}>${t("retry")}</button><//>`}
      ${!editing && (calls.length > 0 && writesInstead !== openCalls
        ? html`<${CallAnswers} key=${openCalls} calls=${calls} onWriteInstead=${() => setWritesInstead(openCalls)} />`
        : html`<${Composer} busy=${run?.state === "running"} />`)}
    </section>
    <aside class="details" aria-label=${t("details")}><${Details} /></aside>
  `;
}

/**
 * Return the ref of an element whose end stays in view while it grows, unless the reader has scrolled up from it. A new
 * request brings it back into view.
 * @param {boolean} begun there is something to follow
 * @param {import("../run.js").Run | null} run
 */
function useFollowedEnd(begun, run) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const follows = useRef(true);
  const lastY = useRef(0);
  const hasBegun = useRef(begun);
  hasBegun.current = begun;
  const below = () => (ref.current?.getBoundingClientRect().bottom ?? 0) - innerHeight;
  const follow = () => {
    if (hasBegun.current && follows.current && below() > 0) scrollBy(0, below() + BOTTOM_PIXELS);
    lastY.current = scrollY; // a page that became shorter has scrolled up by itself
  };
  useEffect(() => {
    // What has grown since the page scrolled by itself is below the screen, too: only scrolling up is the reader's wish.
    const onScroll = () => {
      follows.current = below() < FOLLOWED_PIXELS || (follows.current && scrollY >= lastY.current);
      lastY.current = scrollY;
    };
    addEventListener("scroll", onScroll, { passive: true });
    const resized = new ResizeObserver(follow);
    resized.observe(/** @type {HTMLElement} */ (ref.current));
    return () => {
      removeEventListener("scroll", onScroll);
      resized.disconnect();
    };
  }, []);
  useLayoutEffect(() => {
    if (run) follows.current = true;
    follow();
  }, [run]);
  return ref;
}

/** @param {{editing: boolean, onEdit: () => void}} props */
function Toolbar({ editing, onEdit }) {
  const { messages, options, run } = useStore(store);
  const busy = run?.state === "running";
  const loadExample = () => {
    setMessages(FORMATS[options.format].example);
    store.set({ options: { ...store.get().options, functions: JSON.stringify(EXAMPLE_FUNCTIONS, null, 2) } });
  };
  return html`<div class="toolbar" role="group" aria-label=${t("conversation")}>
    <button type="button" class="quiet" onClick=${loadExample}>${t("exampleConversation")}</button>
    <button type="button" class="quiet" aria-pressed=${String(editing)} onClick=${onEdit}>${t("asJson")}</button>
    ${messages.length > 0 && !busy && html`
      <button type="button" class="quiet" onClick=${retry}>${t("askAgain")}</button>
      <button type="button" class="quiet" onClick=${() => setMessages([])}>${t("clear")}</button>`}
  </div>`;
}

/** The first screen: examples to click; where only the demo model is there, also the way to another server. @param {{demo: boolean}} props */
function FirstScreen({ demo }) {
  const { servers, options } = useStore(store);
  const questions = FIRST_QUESTIONS.filter(({ server }) => !server || Object.hasOwn(servers[options.model] ?? {}, server));
  return html`<div class="first-run">
    <h2>${demo ? t("firstRun") : t("welcome")}</h2>
    <p>${demo ? t("firstRunText") : t("welcomeText")}</p>
    <h3>${t("tryThis")}</h3>
    <ul class="examples">${questions.map((one) => html`<li><button type="button" onClick=${() => ask(one)}>
      <b>${t(`try_${one.id}`)}</b><small>${t(`try_${one.id}_text`)}</small></button></li>`)}</ul>
    ${demo && html`<p><a class="button primary" href="#connect">${t("connectServer")}</a></p>`}
  </div>`;
}

/** @param {typeof FIRST_QUESTIONS[number]} question */
function ask({ id, functions, server, thinking, file }) {
  setOptions({
    functions: functions ? JSON.stringify(EXAMPLE_FUNCTIONS, null, 2) : "",
    servers: server ? [server] : [],
    thinking: /** @type {"" | "on"} */ (thinking ?? ""),
  });
  sendUser(t(`question_${id}`), file ? [file()] : []);
}

/** The whole conversation as JSON, to write or paste. @param {{onDone: () => void}} props */
function ConversationEditor({ onDone }) {
  const { messages, options } = store.get();
  const [draft, setDraft] = useState(JSON.stringify(messages, null, 2));
  const [checked, setChecked] = useState(false);
  const [found, setFound] = useState(/** @type {import("../json_marks.js").Mark[]} */ ([]));
  const change = (/** @type {string} */ text) => {
    setDraft(text);
    setFound([]);
  };
  const use = (/** @type {any[]} */ list) => {
    setMessages(list);
    onDone();
  };
  const save = async () => {
    setChecked(true);
    const list = readMessages(draft);
    if (!list) return;
    const violations = list.length ? await findViolations(list) : [];
    if (violations.length) setFound(markMessages(draft, violations));
    else use(list);
  };
  const marks = checked ? [...markConversation(draft), ...found] : [];
  return html`<div class="editor">
    <${JsonArea} label=${t("messagesIn", { format: FORMATS[options.format].title })} value=${draft} marks=${marks} rows=${24} onInput=${change}
      action=${html`<button type="button" class="quiet" onClick=${() => change(JSON.stringify(FORMATS[options.format].example, null, 2))}>${t("example")}</button>`} />
    <div class="buttons"><button type="button" class="primary" onClick=${save}>${t("save")}</button>
      <button type="button" onClick=${onDone}>${t("cancel")}</button>
      ${found.length > 0 && html`<button type="button" class="last" onClick=${() => use(readMessages(draft) ?? [])}>${t("saveAnyway")}</button>`}</div>
  </div>`;
}

/** @param {string} text @returns {any[] | null} the messages of a list, or of the body of a request */
function readMessages(text) {
  if (markConversation(text).length) return null;
  const value = JSON.parse(text);
  return Array.isArray(value) ? value : (value.messages ?? value.input);
}

/** @param {string} text @returns {import("../json_marks.js").Mark[]} */
function markConversation(text) {
  const syntax = markSyntax(text);
  if (syntax.length) return syntax;
  const value = JSON.parse(text);
  if (Array.isArray(value) || Array.isArray(value?.messages ?? value?.input)) return [];
  return [{ start: 0, end: text.length, text: t("notMessages"), kind: "wrong" }];
}

/** The reply in progress: each of its messages is an article of its own from its first token on. @param {{run: import("../run.js").Run, calls: Map<string | undefined, import("../reply.js").Part>}} props */
function LiveReply({ run, calls }) {
  const { reply, state } = run;
  const running = state === "running";
  return html`<div class="live" role="group" aria-label=${t("reply")} aria-busy=${String(running)}>
    ${reply.parts.map((part, index) => html`<article key=${index} class=${`message ${part.kind === "result" ? "function" : "assistant"}`} aria-label=${t("replyPart", { part: partName(part) })}>
      <header><h2>${t(part.kind === "result" ? "function" : "assistant")}</h2></header>
      <${Guard} source=${part.text}><${PartView} part=${nameResult(part, calls)} role="assistant" /><//>
    </article>`)}
    ${running && html`<div class="progress"><span class="growing" aria-hidden="true"></span>
      <span>${reply.parts.length ? t("receiving") : t("waiting")}</span>
      <button type="button" class="last" title=${t("cutHint")} onClick=${() => run.cut()}>${t("cut")}</button></div>`}
    ${state === "cut" && html`<div class="problem" role="alert"><p><b>${t("cutAfter", { count: run.frames.length })}</b></p>
      <div class="buttons">${run.canResume && html`<button type="button" class="primary" onClick=${resume}>${t("resume")}</button>`}
        <button type="button" onClick=${start}>${t("retry")}</button></div></div>`}
    ${state === "failed" && html`<${Problem} error=${reply.error ?? run.error ?? {}}>
      <button type="button" class="primary" onClick=${start}>${t("retry")}</button><//>`}
    ${state === "stopped" && html`<div class="stopped"><p>${t("replyStopped")}</p>
      <div class="buttons"><button type="button" onClick=${start}>${t("retry")}</button></div></div>`}
  </div>`;
}

/** @param {import("../reply.js").Part} part */
function partName({ kind, name }) {
  if (kind === "call") return t("callOf", { name: name ?? "" });
  if (kind === "result") return t("resultOf", { name: name ?? "" });
  return kind === "reasoning" ? t("reasoning") : t("content");
}

/**
 * It takes the place of the composer: results of the functions of the request, and whether the gateway shall run the calls
 * that wait for approval.
 * @param {{calls: import("../reply.js").Part[], onWriteInstead: () => void}} props
 */
function CallAnswers({ calls, onWriteInstead }) {
  const own = calls.filter((call) => !call.approval);
  const waiting = calls.filter((call) => call.approval);
  const [texts, setTexts] = useState(own.map(() => ""));
  const [approvals, setApprovals] = useState(/** @type {import("../conversation.js").Approval[]} */ ([]));
  const send = (/** @type {import("../conversation.js").Approval[]} */ answers) =>
    answerCalls(own.map(({ id, name }, index) => ({ id: id ?? "", name: name ?? "", text: texts[index] })), answers);
  const decide = (/** @type {string} */ id, /** @type {boolean} */ approve) => {
    const answers = [...approvals.filter((one) => one.id !== id), { id, approve }];
    setApprovals(answers);
    if (!own.length && answers.length === waiting.length) send(answers);
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    send(approvals);
  };
  return html`<form class="answers" onSubmit=${submit}>
    ${waiting.map((call) => html`<${ApprovalButtons} call=${call} approved=${approvals.find((one) => one.id === call.id)?.approve}
      onDecide=${(/** @type {boolean} */ approve) => decide(call.id ?? "", approve)} />`)}
    ${own.map((call, index) => html`<${TextArea} label=${t("resultOf", { name: call.name ?? "" })} value=${texts[index]} rows=${2}
      placeholder='{"temperature": 21, "sky": "sunny"}' onInput=${(/** @type {string} */ text) => setTexts(texts.with(index, text))} />`)}
    <div class="buttons"><button type="button" class="quiet" onClick=${onWriteInstead}>${t("writeInstead")}</button>
      ${own.length > 0 && html`<button type="submit" class="primary last" disabled=${approvals.length < waiting.length}>${t("sendResults")}</button>`}</div>
  </form>`;
}

/** @param {{call: import("../reply.js").Part, approved: boolean | undefined, onDecide: (approve: boolean) => void}} props */
function ApprovalButtons({ call, approved, onDecide }) {
  const name = call.name ?? "";
  return html`<div role="group" aria-label=${t("approvalOf", { name })}>
    <p><b>${t("approvalOf", { name })}</b> <code>${call.text}</code></p>
    <div class="buttons">
      <button type="button" class=${approved === false ? "" : "primary"} aria-pressed=${String(approved === true)} onClick=${() => onDecide(true)}>${t("approve")}</button>
      <button type="button" aria-pressed=${String(approved === false)} onClick=${() => onDecide(false)}>${t("refuse")}</button>
    </div>
  </div>`;
}
