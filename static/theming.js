// The button that chooses light or dark; theme.js applies the choice before the first paint.

const KEY = "flipscope.theme";

function current() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function toggle() {
  const theme = current() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // storage can be switched off; the choice then lasts as long as the page
  }
}

export function setUpTheme() {
  for (const button of document.querySelectorAll("[data-theme-toggle][hidden]")) {
    button.hidden = false;
    button.addEventListener("click", toggle);
  }
}
