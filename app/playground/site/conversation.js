/** @file The state of the page, and what the reader can do with a conversation. */

import { findOpenCalls } from "./formats/describe.js";
import { FORMATS, readMessages, writeUser } from "./formats/index.js";
import { loadConversation, saveConversation } from "./conversation_storage.js";
import { GatewayError, readKey, sendJson, storeKey } from "./gateway.js";
import { describeMark, describeViolation, markShape } from "./json_marks.js";
import { splitByMessage } from "./losses.js";
import { Run } from "./run.js";
import { createStore } from "./store.js";
import { t } from "./texts.js";

/**
 * @typedef {object} Options what the request says besides its messages
 * @property {string} model
 * @property {string} format
 * @property {string} functions JSON
 * @property {string[]} servers the servers of tools that the gateway asks
 * @property {"" | "on" | "off"} thinking
 * @property {"" | "on" | "refresh" | "off" | "only"} cache
 * @property {string} temperature
 * @property {string} maxTokens
 * @property {string} more JSON: other keys of generate_cfg
 * @property {boolean} keepRunning
 */

/** @typedef {{id: string, approve: boolean}} Approval whether the gateway shall run a call */

export const store = createStore({
  /**
   * @type {{version: string, demo: boolean, needs_key: boolean, request_log: boolean, default_model: string | null, command: string, kinds: string[],
   *   responsible: import("./failures.js").Responsibilities}}
   */
  gateway: {
    version: "",
    demo: false,
    needs_key: false,
    request_log: false,
    default_model: null,
    command: "parley",
    kinds: [],
    responsible: { gateway: {}, upstream: {}, other_names: {}, network_causes: [] },
  },
  /** What the key may use, and null until the gateway has answered. @type {string[] | null} */
  models: null,
  /** The servers of tools that each model may use, and the tools that they have shown. @type {Record<string, Record<string, string[]>>} */
  servers: {},
  /** @type {GatewayError | null} */
  modelsError: null,
  key: readKey(),
  /** The pages that the gateway has refused to this key. @type {string[]} */
  refusedViews: [],
  view: "chat",
  /** @type {Options} */
  options: {
    model: "",
    format: "qwen",
    functions: "",
    servers: [],
    thinking: "",
    cache: "",
    temperature: "",
    maxTokens: "",
    more: "",
    keepRunning: true,
  },
  /** @type {any[]} */
  messages: [],
  /** The mistakes of each message. @type {Record<number, import("./json_marks.js").Violation[]>} */
  mistakes: {},
  /**
   * What is wrong with the request as a whole. `title` and `detail` take the place of what the error says.
   * @type {{error: import("./views/problem.js").GivenError, title?: string, detail?: string} | null}
   */
  problem: null,
  /** The answers to calls that wait for approval, until a reply has used them. @type {Approval[]} */
  approvals: [],
  /** What a conversion or a reply lost of each message, or warns of. @type {Record<number, import("./losses.js").Loss[]>} */
  losses: {},
  /** Warnings that name no message. @type {string[]} */
  notices: [],
  /** Why the browser does not keep the conversation across a reload; empty: it does. */
  notKept: "",
  /** The request in progress, or the last one if it did not finish. @type {Run | null} */
  run: null,
  /** @type {Run[]} */
  runs: [],
  /** @type {number | null} */
  selectedRun: null,
  announcement: "",
});

const { get } = store;

/** For how many messages the place of their losses is found. */
const MAX_PLACED = 20;

/**
 * Show the conversation that this tab had before it was loaded again, and keep each change of it from now on. A reply that is
 * not yet a part of it is read again by `resume`.
 */
export async function restoreConversation() {
  const kept = await loadConversation().catch(reportNotKept);
  if (kept) {
    const { messages, options, unfinished } = kept;
    const run = unfinished && Run.ofLostPage(unfinished.body, unfinished.responseId, notifyOncePerFrame);
    store.set({ messages, options: { ...get().options, ...options }, run, runs: run ? [run] : [] });
  }
  /** @type {any[]} */
  let saved = [];
  store.subscribe(() => {
    const { messages, options, run } = get();
    const responseId = run && run.state !== "stopped" ? run.responseId : undefined;
    const now = [messages, options, responseId];
    if (now.every((value, index) => value === saved[index])) return;
    saved = now;
    const unfinished = run && responseId ? { body: run.body, responseId } : null;
    saveConversation({ messages, options, unfinished }).then(() => get().notKept && store.set({ notKept: "" }), reportNotKept);
  });
}

/** @param {unknown} error of the browser */
function reportNotKept(error) {
  store.set({ notKept: String(error) });
}

/** @param {Partial<Options>} changes */
export function setOptions(changes) {
  store.set({ options: { ...get().options, ...changes } });
}

/** @param {string} key */
export async function setKey(key) {
  storeKey(key);
  store.set({ key, refusedViews: [] });
  await Promise.all([loadModels(), loadRights()]);
}

/** Find out which pages of administrators the present key may use. */
export async function loadRights() {
  const { key, gateway } = get();
  const asked = ["v1/status", "v1/teams", ...(gateway.request_log ? ["v1/requests?limit=1"] : [])];
  const [status, keys, requests] = await Promise.all(asked.map(isRefused));
  const refusedViews = [...(status ? ["status"] : []), ...(keys ? ["keys", "teams"] : []), ...(requests ? ["requests"] : [])];
  if (get().key === key) store.set({ refusedViews });
}

/** @param {string} path */
async function isRefused(path) {
  try {
    await sendJson("GET", path);
    return false;
  } catch (error) {
    return [401, 403].includes(asGatewayError(error).status); // another failure is shown on the page itself
  }
}

/** Load the models for the present key. The answer for an earlier key may come after this one's, and is ignored. */
export async function loadModels() {
  const { key } = get();
  try {
    const list = await sendJson("GET", "v1/models");
    if (get().key !== key) return;
    const models = list.data.map((/** @type {{id: string}} */ row) => row.id);
    const { options, gateway } = get();
    const model = [options.model, gateway.default_model].find((name) => name && models.includes(name));
    const servers = Object.fromEntries(list.data.map((/** @type {any} */ row) => [row.id, row.parley?.mcp_servers ?? {}]));
    store.set({ models, servers, modelsError: null });
    setOptions({ model: model ?? models[0] ?? options.model });
  } catch (error) {
    if (get().key === key) store.set({ models: get().models ?? [], modelsError: asGatewayError(error) });
  }
}

/** @param {unknown} error */
export function asGatewayError(error) {
  return error instanceof GatewayError ? error : new GatewayError(0, { message: String(error) });
}

/**
 * Return the JSON of a text field; undefined if it is empty. Throws an Error that names the field and the place.
 * @param {string} text
 * @param {string} name
 * @param {"list" | "object"} shape
 */
function parseField(text, name, shape) {
  const [mark] = markShape(text, shape);
  if (mark) throw new Error(t("notJson", { name, reason: describeMark(text, mark) }));
  return text.trim() ? JSON.parse(text) : undefined;
}

/**
 * Return the body of the request for these messages. Throws an Error if a field of the options is not JSON.
 * @param {any[]} messages
 */
export function makeBody(messages) {
  const { options, approvals } = get();
  const functions = [...chosenServers(), ...(parseField(options.functions, t("functions"), "list") ?? [])];
  const waiting = approvals.length ? findOpenCalls(messages).filter((call) => call.approval) : [];
  const answers = approvals.filter(({ id }) => waiting.some((call) => call.id === id));
  const config = { ...parseField(options.more, t("moreParameters"), "object") };
  if (options.thinking) config.enable_thinking = options.thinking === "on";
  if (options.temperature !== "") config.temperature = Number(options.temperature);
  if (options.maxTokens !== "") config.max_tokens = Number(options.maxTokens);
  /** @type {Record<string, any>} */
  const body = { model: options.model, format: options.format, messages };
  if (functions.length) body.functions = functions;
  if (answers.length) body.tool_approvals = answers;
  if (Object.keys(config).length) body.generate_cfg = config;
  if (options.cache) body.cache = { mode: options.cache };
  if (options.keepRunning) body.cancel_on_disconnect = false;
  return body;
}

/** @returns {string[]} the chosen servers of tools that the model may use */
export function chosenServers() {
  const { options, servers } = get();
  return options.servers.filter((name) => Object.hasOwn(servers[options.model] ?? {}, name));
}

/**
 * Add a message of the user and send the conversation.
 * @param {string} text
 * @param {import("./formats/index.js").Attachment[]} files
 * @returns {Promise<boolean>} false if it could not be added: then `problem` says why
 */
export async function sendUser(text, files) {
  const { format } = get().options;
  const written = writeUser(format, text, files);
  try {
    const added = written.format === format ? [written.message] : await convert(written.format, format, [written.message]);
    await keepPartial();
    store.set({ messages: [...get().messages, ...added] });
  } catch (error) {
    reportProblem(error);
    return false;
  }
  start();
  return true;
}

/** @param {string} text */
export function addSystem(text) {
  const { messages, options } = get();
  store.set({ messages: [FORMATS[options.format].writeSystem(text), ...messages], mistakes: {}, losses: {} });
}

/**
 * @param {import("./formats/index.js").Result[]} results of the functions of the request
 * @param {Approval[]} approvals
 */
export async function answerCalls(results, approvals) {
  const { messages, options } = get();
  const added = results.length ? FORMATS[options.format].writeResults(results) : [];
  store.set({ messages: [...messages, ...added], approvals });
  await start();
}

/** Send the conversation as it is. */
export async function start() {
  let body;
  store.set({ mistakes: {}, losses: {}, problem: null, notices: [], announcement: "" });
  try {
    body = makeBody(get().messages);
  } catch (error) {
    store.set({ problem: { error: { message: error instanceof Error ? error.message : String(error) } } });
    return;
  }
  const run = new Run(body, notifyOncePerFrame, (get().runs.at(-1)?.number ?? 0) + 1);
  store.set({ run, runs: [...get().runs, run].slice(-20), selectedRun: null, announcement: t("replyStarted") });
  await run.start();
  await settle(run);
}

export async function resume() {
  const { run } = get();
  if (!run?.canResume) return;
  store.set({ problem: null, announcement: t("replyStarted") });
  const reading = run.resume();
  store.notify();
  await reading;
  await settle(run);
}

export async function stop() {
  try {
    await get().run?.stop();
  } catch (error) {
    reportProblem(error);
  }
}

/** Read what a run ended with. @param {Run} run */
async function settle(run) {
  if (get().run !== run) return;
  if (run.state === "finished") {
    const added = await readWhole(run).catch(reportProblem);
    if (!added || get().run !== run) return; // after a failure, the reply stays where it is shown
    if (get().modelsError) void loadModels();
    const { byMessage, others } = splitByMessage(run.reply.warnings);
    store.set({
      messages: [...get().messages, ...added],
      approvals: [],
      run: null,
      losses: Object.fromEntries(byMessage),
      notices: others,
      announcement: t("replyFinished"),
    });
  } else if (run.state === "stopped") {
    store.set({ announcement: t("replyStopped") });
    await keepPartial().catch(reportProblem);
  } else if (run.state === "failed" && run.error) {
    reportProblem(run.error);
    store.set({ run: run.reply.parts.length ? run : null });
  } else {
    store.set({ announcement: run.state === "cut" ? t("replyCut") : t("replyFailed") });
    if (run.error?.status) reportProblem(run.error);
  }
}

/**
 * Return a reply as messages of the chosen format. Throws a GatewayError.
 * @param {Run} run
 * @returns {Promise<any[]>}
 */
async function readWhole(run) {
  let reply;
  try {
    reply = await sendJson("GET", `v1/chat/${run.responseId}`);
  } catch {
    // Another process has the reply, or replies are not kept.
    return convertPartial(run);
  }
  return convertReply(run.format, FORMATS[run.format].replyMessages(reply));
}

/**
 * Move what was read of the reply that did not finish into the conversation. A reply without text or a result stays
 * where it is. Throws a GatewayError: then nothing has changed.
 */
async function keepPartial() {
  const { run } = get();
  if (!run || run.state === "running") return;
  const added = await convertPartial(run);
  if (get().run === run && added.length) store.set({ messages: [...get().messages, ...added], run: null });
}

/**
 * Return what was read of a reply as messages of the chosen format. Throws a GatewayError.
 * @param {Run} run
 * @returns {Promise<any[]>}
 */
async function convertPartial(run) {
  return convertReply("qwen", readMessages(run.reply, run.state === "finished"));
}

/**
 * Return messages of a reply in the chosen format, which may have been changed while the reply was written.
 * @param {string} from their format
 * @param {any[]} messages
 * @returns {Promise<any[]>}
 */
async function convertReply(from, messages) {
  const { format } = get().options;
  if (!messages.length || from === format) return messages;
  // A conversation begins with the user: a message in front takes that place, and is one message in every format.
  return (await convert(from, format, [FORMATS[from].writeUser("?", []), ...messages])).slice(1);
}

/**
 * @param {string} from
 * @param {string} to
 * @param {any[]} messages
 * @returns {Promise<any[]>}
 */
async function convert(from, to, messages) {
  return (await sendJson("POST", "v1/convert", { from, to, messages })).messages;
}

/**
 * Return the mistakes of messages in the chosen format. If the gateway cannot be asked, the problem is shown, and sending
 * finds them.
 * @param {any[]} messages
 * @returns {Promise<import("./json_marks.js").Violation[]>}
 */
export async function findViolations(messages) {
  const { format } = get().options;
  try {
    await convert(format, format, messages);
    return [];
  } catch (error) {
    const violations = asGatewayError(error).violations.filter(({ param }) => param);
    if (!violations.length) reportProblem(error);
    return violations;
  }
}

/** Write the conversation in another format. @param {string} format @returns {Promise<void>} */
export async function changeFormat(format) {
  const { messages, options } = get();
  if (!messages.length) {
    setOptions({ format });
    return;
  }
  try {
    if (get().run) {
      await keepPartial();
      if (get().messages !== messages) return changeFormat(format);
    }
    const body = { from: options.format, to: format, messages };
    const converted = await sendJson("POST", "v1/convert", body);
    const { losses, notices } = await placeLosses(body, converted.warnings);
    if (get().messages !== messages) return changeFormat(format); // the reader has changed or cleared the conversation
    const { run } = get();
    store.set({ messages: converted.messages, losses, notices, mistakes: {}, problem: null, run: run?.state === "running" ? run : null });
    setOptions({ format });
  } catch (error) {
    reportProblem(error);
  }
}

/**
 * Find the message after a conversion for each message before it that has warnings: as many messages as the conversation
 * has up to it, converted alone.
 * @param {{from: string, to: string, messages: any[]}} body of the conversion
 * @param {string[]} warnings
 */
async function placeLosses({ from, to, messages }, warnings) {
  const { byMessage, others } = splitByMessage(warnings);
  /** @type {Record<number, import("./losses.js").Loss[]>} */
  const losses = {};
  const notices = [...others];
  for (const [index, rows] of byMessage) {
    const place = Object.keys(losses).length < MAX_PLACED ? await convert(from, to, messages.slice(0, index + 1)).catch(() => []) : [];
    if (place.length) (losses[place.length - 1] ??= []).push(...rows);
    else notices.push(...rows.map(describeViolation));
  }
  return { losses, notices };
}

/** @param {any[]} messages */
export function setMessages(messages) {
  stop();
  store.set({ messages, approvals: [], mistakes: {}, losses: {}, problem: null, notices: [], run: null });
}

/** @param {number} index @param {any} message */
export function replaceMessage(index, message) {
  const { messages, mistakes, losses } = get();
  const { [index]: _, ...others } = mistakes;
  const { [index]: __, ...otherLosses } = losses;
  store.set({ messages: messages.with(index, message), mistakes: others, losses: otherLosses });
}

/** @param {number} index */
export function removeMessage(index) {
  store.set({ messages: get().messages.toSpliced(index, 1), mistakes: {}, losses: {} });
}

/** Remove the last reply, and ask again. */
export async function retry() {
  const { messages, run } = get();
  if (run) {
    await start();
    return;
  }
  const last = get().runs.at(-1);
  const asked = last ? last.body.messages.length : messages.length;
  store.set({ messages: messages.slice(0, Math.min(asked, messages.length)), approvals: last?.body.tool_approvals ?? [] });
  await start();
}

/** Put each mistake at the message that has it, and ask for another key where this one is refused. @param {unknown} thrown */
export function reportProblem(thrown) {
  const error = asGatewayError(thrown);
  if (error.status === 401) void loadModels();
  /** @type {Record<number, import("./json_marks.js").Violation[]>} */
  const mistakes = {};
  const others = [];
  for (const one of error.violations) {
    const index = /^messages\[(\d+)\]/.exec(one.param ?? "")?.[1];
    if (index === undefined || Number(index) >= get().messages.length) others.push(describeViolation(one));
    else (mistakes[Number(index)] ??= []).push(one);
  }
  const problem =
    others.length || !error.violations.length
      ? { error, detail: others.join("\n") || error.message }
      : { error, title: t("mistakesBelow"), detail: "" };
  store.set({ mistakes, problem, announcement: problem.title ?? problem.detail });
}

let scheduled = false;

/** Many frames arrive between two images of the screen. */
function notifyOncePerFrame() {
  if (scheduled) return;
  scheduled = true;
  const notify = () => {
    scheduled = false;
    store.notify();
  };
  if (document.hidden) setTimeout(notify, 100);
  else requestAnimationFrame(notify);
}
