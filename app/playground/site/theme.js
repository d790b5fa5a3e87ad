/** @file Light, dark, or as the system has it. */

const STORED = "parley-theme";
export const THEMES = ["auto", "light", "dark"];

export const currentTheme = () => localStorage.getItem(STORED) ?? "auto";

/** @param {string} theme */
export function applyTheme(theme) {
  localStorage.setItem(STORED, theme);
  document.documentElement.dataset.theme = theme;
}
