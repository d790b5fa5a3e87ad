/** @file The frame of the page: its header, its views, and what screen readers announce. */

import { reportProblem, setKey, store } from "../conversation.js";
import { html, useState } from "../html.js";
import { useStore } from "../store.js";
import { applyTheme, currentTheme, THEMES } from "../theme.js";
import { chooseLanguage, currentLanguage, LANGUAGES, t } from "../texts.js";
import { ChatView } from "./chat.js";
import { ConnectView } from "./connect.js";
import { Select } from "./controls.js";
import { ConvertView } from "./convert.js";
import { KeysView } from "./keys.js";
import { RequestsView } from "./requests.js";
import { SpendingView } from "./spending.js";
import { StatusView } from "./status.js";
import { TeamsView } from "./teams.js";

const PAGES = {
  chat: ChatView,
  convert: ConvertView,
  status: StatusView,
  requests: RequestsView,
  keys: KeysView,
  teams: TeamsView,
  spending: SpendingView,
  connect: ConnectView,
};
export const VIEWS = Object.keys(PAGES);

export function App() {
  const { view, gateway, refusedViews, announcement } = useStore(store);
  const isOff = (/** @type {string} */ name) => name === "requests" && !gateway.request_log;
  const offered = VIEWS.filter((name) => name === view || !(refusedViews.includes(name) || isOff(name)));
  const View = PAGES[/** @type {keyof typeof PAGES} */ (view)];
  document.title = `${t(view)} · Parley`;
  return html`
    <a class="skip" href="#main" onClick=${focusOn("main")}>${t("skip")}</a>
    ${view === "chat" && html`<a class="skip" href="#conversation" onClick=${focusOn("prompt", "conversation")}>${t("skipToMessage")}</a>`}
    <header class="top">
      <a class="brand" href="#chat"><img src="playground/icon.svg" alt="" width="26" height="26" /><b>Parley</b>
        <span class="muted version">${gateway.version}</span></a>
      <nav aria-label=${t("views")}>
        ${offered.map((name) => html`<a href=${`#${name}`} aria-current=${name === view ? "page" : null}>${t(name)}</a>`)}
        <a class="outside" href="docs">${t("api")}</a>
      </nav>
      <${KeyField} />
      <${Preferences} />
    </header>
    <main id="main" tabindex="-1" class=${`view ${view}`}><${View} /></main>
    <div role="status" class="visually-hidden">${announcement}</div>
  `;
}

/** @param {string[]} ids the link moves the focus to the first of these elements that is there */
const focusOn = (...ids) => (/** @type {Event} */ event) => {
  event.preventDefault();
  document.getElementById(ids.find((id) => document.getElementById(id)) ?? "")?.focus();
};

function Preferences() {
  const [theme, setTheme] = useState(currentTheme());
  const themes = THEMES.map((name) => [name, t(`theme_${name}`)]);
  const chooseTheme = (/** @type {string} */ name) => {
    applyTheme(name);
    setTheme(name);
  };
  return html`<div class="preferences">
    <${Select} label=${t("theme")} hidesLabel value=${theme} options=${themes} onChange=${chooseTheme} />
    <${Select} label=${t("language")} hidesLabel value=${currentLanguage()} options=${Object.entries(LANGUAGES)}
      onChange=${(/** @type {string} */ name) => chooseLanguage(name).then(() => store.notify(), reportProblem)} />
  </div>`;
}

/** What a header can hold. A key that was shortened on its way here has other characters, such as `…`. */
const SENDABLE = /^[\x20-\x7e\xa0-\xff]*$/;

/** The field for the API key is there where the gateway asks for one, or where the reader opens it. */
function KeyField() {
  const { key, gateway, modelsError } = useStore(store);
  const [open, setOpen] = useState(false);
  const [mistyped, setMistyped] = useState(false);
  const refused = modelsError?.status === 401;
  if (!(open || mistyped || refused || (gateway.needs_key && !key))) {
    return html`<button type="button" class="quiet key" onClick=${() => setOpen(true)}>
      ${key ? t("keySet") : t("apiKey")}</button>`;
  }
  const save = (/** @type {Event} */ event) => {
    event.preventDefault();
    const field = /** @type {HTMLInputElement} */ (document.getElementById("api-key"));
    const value = field.value.trim();
    setMistyped(!SENDABLE.test(value));
    if (!SENDABLE.test(value)) return;
    setOpen(false);
    setKey(value);
  };
  const wrong = mistyped ? t("keyMistyped") : refused && key ? t("keyRefused") : null;
  return html`<form class="key" onSubmit=${save}>
    <label for="api-key" class="visually-hidden">${t("apiKey")}</label>
    <input id="api-key" type="password" autocomplete="off" placeholder=${t("apiKey")} defaultValue=${key}
      aria-invalid=${wrong ? "true" : null} aria-describedby="key-hint" />
    <button type="submit">${t("use")}</button>
    <span id="key-hint" class=${wrong ? "wrong" : "visually-hidden"}>${wrong ?? t("keyHint")}</span>
  </form>`;
}
