// Light or dark: as the system says, until the button is pressed.
import { byId } from "./dom.js";

/** @param {() => void} redraw */
export function wireTheme(redraw) {
  const button = byId("theme"), root = document.documentElement;
  const set = (/** @type {boolean} */ isDark) => {
    root.dataset.theme = isDark ? "dark" : "light";
    button.textContent = isDark ? "Light" : "Dark";
    button.setAttribute("aria-pressed", String(isDark));
  };
  set(window.matchMedia("(prefers-color-scheme: dark)").matches);
  button.addEventListener("click", () => { set(root.dataset.theme !== "dark"); redraw(); });
}
