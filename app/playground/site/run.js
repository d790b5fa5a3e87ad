/** @file `Run`: one request to `POST /v1/chat`, from its start to its end, with everything that can be known about it. */

import { readData, readFrames } from "./event_stream.js";
import { readFrame } from "./formats/index.js";
import { GatewayError, send } from "./gateway.js";
import { Reply } from "./reply.js";

/** @typedef {"running" | "finished" | "failed" | "cut" | "stopped"} RunState */

const HEADERS = /^(x-|age$|retry-after)/;

export class Run {
  /**
   * @param {Record<string, any>} body of the request
   * @param {() => void} onChange called when something has arrived
   * @param {number} [number] which reply of this page it is, from 1
   */
  constructor(body, onChange, number = 1) {
    this.body = body;
    this.number = number;
    /** @type {string} */
    this.format = body.format;
    this.reply = new Reply();
    /** @type {RunState} */
    this.state = "running";
    /** @type {{at: number, text: string}[]} times in milliseconds since the request */
    this.frames = [];
    /** When text arrived, in milliseconds since the request: one time for each piece. @type {number[]} */
    this.deltaTimes = [];
    this.startedAt = performance.now();
    /** @type {number | null} */
    this.endedAt = null;
    /** @type {Record<string, string>} */
    this.headers = {};
    /** @type {number | null} */
    this.status = null;
    /** @type {GatewayError | null} */
    this.error = null;
    this.resumes = 0;
    this._onChange = onChange;
    this._controller = new AbortController();
  }

  /**
   * A reply that was being read when the page was loaded again. `resume` reads it from its beginning.
   * @param {Record<string, any>} body
   * @param {string} responseId
   * @param {() => void} onChange
   */
  static ofLostPage(body, responseId, onChange) {
    const run = new Run(body, onChange);
    run.headers = { "x-parley-response-id": responseId };
    run.state = "cut";
    return run;
  }

  /** @returns {string | undefined} */
  get responseId() {
    return this.headers["x-parley-response-id"];
  }

  get canResume() {
    return this.state === "cut" && this.responseId !== undefined;
  }

  start() {
    return this._read(() => send("POST", "v1/chat", { body: this.body, signal: this._controller.signal }));
  }

  /** Read the rest of a reply whose connection was lost. */
  resume() {
    this.state = "running";
    this.error = null;
    this.resumes += 1;
    this._controller = new AbortController();
    const path = `v1/chat/${this.responseId}/events?after=${this.frames.length}`;
    return this._read(() => send("GET", path, { signal: this._controller.signal }));
  }

  /** End the reply, here and at the model server. Throws a GatewayError if the gateway cannot be told. */
  async stop() {
    if (this.state !== "running" && this.state !== "cut") return;
    this._end("stopped");
    this._controller.abort();
    if (this.responseId) await send("DELETE", `v1/chat/${this.responseId}`).catch(ignoreEnded);
  }

  /** Lose the connection on purpose, as a network does. */
  cut() {
    this._end("cut");
    this._controller.abort();
  }

  /** @param {() => Promise<Response>} open */
  async _read(open) {
    try {
      const response = await open();
      this.status = response.status;
      for (const [name, value] of response.headers) if (HEADERS.test(name)) this.headers[name] = value;
      this._onChange();
      // A resume with 204: all frames had arrived before the connection was lost.
      if (response.body) for await (const frame of readFrames(response.body)) this._add(frame);
      if (this.state === "running") this._end(this._outcome());
    } catch (error) {
      if (this.state === "running") this._fail(error);
    }
  }

  /** @param {string} frame */
  _add(frame) {
    const at = performance.now() - this.startedAt;
    const before = this.reply.deltas;
    this.frames.push({ at, text: frame });
    readFrame(this.format, this.reply, readData(frame));
    if (this.reply.deltas > before) this.deltaTimes.push(at);
    this._onChange();
  }

  /** @returns {RunState} a stream without its final frame was cut */
  _outcome() {
    if (!this.reply.finished) return "cut";
    return this.reply.error ? "failed" : "finished";
  }

  /** @param {unknown} error */
  _fail(error) {
    if (error instanceof GatewayError) {
      this.error = error;
      this.status = error.status;
      // With an id, a part of the reply has come: the rest can still be read, unless the gateway has it no more.
      this._end(this.responseId && error.status !== 404 ? "cut" : "failed");
    } else if (this.responseId && error instanceof TypeError) {
      this._end("cut");
    } else {
      this.error = new GatewayError(0, { message: String(error) });
      this._end("failed");
    }
  }

  /** @param {RunState} state */
  _end(state) {
    this.state = state;
    this.endedAt = performance.now();
    this._onChange();
  }
}

/** A reply that has ended, or that another process has forgotten, needs no end. @param {unknown} error */
function ignoreEnded(error) {
  if (!(error instanceof GatewayError && error.status === 404)) throw error;
}

/**
 * The figures of a run.
 * @param {Run} run
 */
export function measure(run) {
  const times = run.deltaTimes;
  const first = times.length ? times[0] : null;
  const last = times.length ? times[times.length - 1] : null;
  const gaps = times.slice(1).map((time, index) => time - times[index]);
  const usage = readUsage(run.reply.usage);
  const seconds = first !== null && last !== null ? (last - first) / 1000 : 0;
  const tokens = usage.output ?? times.length;
  return {
    firstToken: first,
    total: run.endedAt === null ? null : run.endedAt - run.startedAt,
    tokensPerSecond: seconds > 0.05 && tokens > 1 ? (tokens - 1) / seconds : null,
    gaps,
    usage,
  };
}

/**
 * Return the tokens of an answer and of its reasoning, which Gemini counts apart.
 * @param {Record<string, any>} usage
 */
function addCounts({ candidatesTokenCount, thoughtsTokenCount = 0 }) {
  return candidatesTokenCount === undefined ? undefined : candidatesTokenCount + thoughtsTokenCount;
}

/**
 * Read the usage of any format.
 * @param {Record<string, any> | null} usage
 * @returns {{input?: number, output?: number, reasoning?: number, cached?: number, cost?: number}}
 */
export function readUsage(usage) {
  if (!usage) return {};
  const outputDetails = usage.completion_tokens_details ?? usage.output_tokens_details ?? {};
  const inputDetails = usage.prompt_tokens_details ?? usage.input_tokens_details ?? {};
  return {
    input: usage.prompt_tokens ?? usage.input_tokens ?? usage.promptTokenCount,
    output: usage.completion_tokens ?? usage.output_tokens ?? addCounts(usage),
    reasoning: usage.reasoning_tokens ?? outputDetails.reasoning_tokens ?? outputDetails.thinking_tokens ?? usage.thoughtsTokenCount,
    cached: usage.cached_tokens ?? inputDetails.cached_tokens ?? usage.cache_read_input_tokens ?? usage.cachedContentTokenCount,
    cost: usage.cost,
  };
}
