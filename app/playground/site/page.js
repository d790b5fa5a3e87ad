/** @file Loads the texts, the gateway's settings and the conversation of this tab, and shows the page. */

import { loadModels, loadRights, restoreConversation, resume, store } from "./conversation.js";
import { sendJson } from "./gateway.js";
import { html, render } from "./html.js";
import { applyTheme, currentTheme } from "./theme.js";
import { loadTexts, preferredLanguage } from "./texts.js";
import { App, VIEWS } from "./views/app.js";

function showView() {
  const view = location.hash.slice(1);
  store.set({ view: VIEWS.includes(view) ? view : "chat" });
}

/** Show the page, then what the gateway answers for the present key. Throws what keeps the page from being shown. */
export async function startPage() {
  applyTheme(currentTheme());
  const [, gateway] = await Promise.all([loadTexts(preferredLanguage()), sendJson("GET", "playground/gateway.json"), restoreConversation()]);
  store.set({ gateway });
  showView();
  addEventListener("hashchange", showView);
  render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
  await Promise.all([loadModels(), loadRights(), resume()]);
}
