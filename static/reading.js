// Which token is being read: one at a time can be reached by Tab, and what it is is said aloud.

import { open } from "./popover.js";
import { entryOf, prefetch } from "./tables.js";

export function announce(text) {
  document.getElementById("announcer").textContent = text;
}

export function tokens(scope = document) {
  return [...scope.querySelectorAll("[data-k] .t")];
}

// Makes tokens that came later able to take the focus.
export function readyTokens(scope) {
  for (const token of tokens(scope)) token.tabIndex = -1;
}

// One token can be reached by Tab: the pinned one, else the first flip, else the first.
export function prepareTokens() {
  const all = tokens();
  for (const token of all) token.tabIndex = -1;
  const first = document.querySelector("#streams .pinned, #streams .flip, #streams .tie") ?? all[0];
  if (!first) return;
  first.tabIndex = 0;
  prefetch(Number(first.dataset.p));
}

export function focusToken(token) {
  if (!token) return;
  for (const other of document.querySelectorAll("[data-k] .t[tabindex='0']")) other.tabIndex = -1;
  token.tabIndex = 0;
  token.focus({ preventScroll: true });
  token.scrollIntoView({ block: "nearest", inline: "nearest" });
}

document.addEventListener("focusin", async (event) => {
  const token = event.target.closest?.("[data-k] .t");
  if (!token || !token.matches(":focus-visible")) return;
  open(token);
  const entry = await entryOf(token);
  if (entry && document.activeElement === token) announce(entry.say);
});
