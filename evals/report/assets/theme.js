"use strict";
// The button that changes between light and dark; until it is pressed the reader's system decides.
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const night = matchMedia("(prefers-color-scheme: dark)");
  const kept = (value) => {
    try {
      if (value) localStorage.setItem("trinity-theme", value);
      return localStorage.getItem("trinity-theme");
    } catch {
      return null; // a browser may deny storage to files
    }
  };
  const isDark = () => (root.dataset.theme || (night.matches ? "dark" : "light")) === "dark";
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Change to ${isDark() ? "light" : "dark"} colours`);
  };
  const before = kept();
  if (before === "dark" || before === "light") root.dataset.theme = before;
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    kept(root.dataset.theme);
    show();
  });
  night.addEventListener("change", show);
  show();
})();
