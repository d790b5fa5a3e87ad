/** @file The texts of the page in the chosen language, from `strings/<language>.json`. */

import { sendJson } from "./gateway.js";

export const LANGUAGES = { en: "English", zh: "中文" };
const STORED = "parley-language";

/** @type {Record<string, string>} */
let texts = {};
let language = "en";

/** @returns {string} the language that the reader chose, else the browser's if there are texts in it */
export function preferredLanguage() {
  const known = [localStorage.getItem(STORED), ...navigator.languages.map((one) => one.slice(0, 2))];
  return known.find((one) => one !== null && one in LANGUAGES) ?? "en";
}

/** Throws GatewayError: then the language stays as it was. @param {string} chosen */
export async function loadTexts(chosen) {
  texts = await sendJson("GET", `playground/strings/${chosen}.json`);
  language = chosen;
  document.documentElement.lang = chosen === "zh" ? "zh-CN" : chosen;
}

/** Throws GatewayError. @param {string} chosen */
export async function chooseLanguage(chosen) {
  await loadTexts(chosen);
  localStorage.setItem(STORED, chosen);
}

/** @param {string} key */
export const hasText = (key) => key in texts;

export const currentLanguage = () => language;

/**
 * Return the text of a key, with each `{name}` in it replaced.
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 */
export function t(key, values = {}) {
  const text = texts[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));
}

/** @param {number} value @param {number} [digits] */
export function number(value, digits = 0) {
  return value.toLocaleString(language === "zh" ? "zh-CN" : "en", { maximumFractionDigits: digits });
}

/** @param {string} text a time in ISO 8601 */
export function dateTime(text) {
  return new Date(text).toLocaleString(language === "zh" ? "zh-CN" : "en-GB", { dateStyle: "medium", timeStyle: "short" });
}
