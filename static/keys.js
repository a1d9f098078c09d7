// Keys: arrows by token and line, n and p by flip, [ and ] by fork on a path, 1 to 5 by lane, g to a position, / finds,
// Enter opens, Esc returns, ? helps. Off inside of fields.

import { close, isFirstTap, isOpen } from "./popover.js";
import { byFork, enterField, followLane } from "./paths.js";
import { focusToken, tokens } from "./reading.js";
import { entryOf } from "./tables.js";
import { flipAcross, isTranscript } from "./transcript.js";

const OFF = "flipscope.keysOff";
const FIELDS = "input:not([type=submit], [type=button], [type=reset]), textarea, select";
const MENUS = ".share[open], .adds details[open], .differs[open]";

function lettersOff() {
  try {
    return localStorage.getItem(OFF) === "1";
  } catch {
    return false; // storage can be switched off
  }
}

function current() {
  return document.activeElement?.closest("[data-k] .t") ?? null;
}

function byToken(step) {
  const token = current();
  const key = token.closest("[data-k]").dataset.k;
  const scope = token.closest("#streams, .flow");
  const own = tokens(scope).filter((other) => other.closest("[data-k]").dataset.k === key);
  focusToken(own[own.indexOf(token) + step]);
}

function byLine(step) {
  const token = current();
  const box = token.getClientRects()[0];
  const row = (other) => other.getClientRects()[0]?.top ?? 0;
  const all = tokens().filter((other) => other.getClientRects().length);
  const rows = [...new Set(all.map((other) => Math.round(row(other))))].sort((a, b) => a - b);
  const next = rows[rows.indexOf(Math.round(box.top)) + step];
  const there = all.filter((other) => Math.round(row(other)) === next);
  const distance = (other) => Math.abs(other.getClientRects()[0].left - box.left);
  focusToken(there.sort((a, b) => distance(a) - distance(b))[0]);
}

function byFlip(step) {
  if (isTranscript()) return flipAcross(step);
  const token = current() ?? document.querySelector("#streams .pinned");
  const stub = current()?.closest(".line.stub")?.dataset.k; // a stub shows flips that the filter leaves out
  const flips = [...document.querySelectorAll("#streams a.t:not(.quiet)")].filter((flip) => {
    const line = flip.closest(".line");
    return !line?.matches(".stub") || line.dataset.k === stub;
  });
  const seen = new Set();
  const firsts = flips.filter((flip) => !seen.has(flip.href) && seen.add(flip.href));
  const same = firsts.findIndex((flip) => flip === token || flip.href === token?.href);
  if (same >= 0 || !token) return focusToken(firsts[same + step] ?? firsts[step > 0 ? 0 : firsts.length - 1]);
  const after = firsts.findIndex((flip) => token.compareDocumentPosition(flip) & Node.DOCUMENT_POSITION_FOLLOWING);
  const at = after < 0 ? firsts.length : after;
  focusToken(firsts[step > 0 ? at : at - 1]);
}

async function pin(token) {
  const entry = await entryOf(token);
  if (!entry || !window.htmx) return;
  const options = { target: "#page", select: "#page", swap: "outerHTML show:none", push: entry.href };
  window.htmx.ajax("GET", entry.href, options);
}

function closeMenu(menu) {
  menu.open = false;
  menu.querySelector("summary").focus();
}

function back() {
  if (isOpen()) return close();
  const menu = document.querySelector(MENUS);
  if (menu) return closeMenu(menu);
  document.querySelector("[data-close]")?.click();
}

const ACTIONS = {
  ArrowLeft: () => current() && byToken(-1),
  ArrowRight: () => current() && byToken(1),
  ArrowUp: () => current() && byLine(-1),
  ArrowDown: () => current() && byLine(1),
  Enter: () => current() && !current().matches("a") && pin(current()),
  Escape: back,
  n: () => byFlip(1),
  p: () => byFlip(-1),
  "[": () => byFork(-1, current()),
  "]": () => byFork(1, current()),
  g: () => enterField("go-at"),
  "/": () => enterField("find-q"),
  "?": () => document.getElementById("help")?.showModal(),
};

for (const [index, letter] of [..."ABCDE"].entries()) ACTIONS[index + 1] = () => followLane(letter);

// AltGr types [ and ] on many keyboards.
function isCommand(event) {
  return (event.ctrlKey || event.metaKey || event.altKey) && !event.getModifierState("AltGraph");
}

// A field takes every key but Escape, and that one too while a search has text, which it clears.
function isTaken(event) {
  if (event.target.closest("dialog")) return true;
  const field = event.target.closest(FIELDS);
  return Boolean(field) && (event.key !== "Escape" || (field.type === "search" && field.value !== ""));
}

function press(event) {
  if (isCommand(event)) return;
  if (event.isComposing || isTaken(event)) return;
  const letter = event.key.length === 1;
  const action = ACTIONS[event.key];
  if (!action || (letter && lettersOff())) return;
  if (!letter && event.key.startsWith("Arrow") && !current()) return;
  if (letter || event.key.startsWith("Arrow")) event.preventDefault();
  action();
}

function clicked(event) {
  for (const menu of document.querySelectorAll(MENUS)) {
    if (!menu.contains(event.target)) menu.open = false;
  }
  if (event.target.closest("[data-help]")) document.getElementById("help")?.showModal();
  const token = event.target.closest("[data-k] span.t");
  if (token && getSelection().isCollapsed && !isFirstTap(token)) pin(token);
}

function switched(event) {
  if (!event.target.matches("[data-keys-off]")) return;
  try {
    localStorage.setItem(OFF, event.target.checked ? "1" : "0");
  } catch {
    // storage can be switched off; the keys then stay on
  }
}

export function setUpKeys() {
  document.addEventListener("keydown", press);
  document.addEventListener("click", clicked);
  document.addEventListener("change", switched);
  document.addEventListener("htmx:afterSettle", showButtons);
  showButtons();
}

function showButtons() {
  for (const button of document.querySelectorAll("[data-help][hidden]")) button.hidden = false;
  const box = document.querySelector("[data-keys-off]");
  if (box) box.checked = lettersOff();
}
