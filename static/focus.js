// Where the focus is after a part of the page was drawn anew: at what was used, or at what took its place; at the fork
// that opened, or the flip that was closed; at the token that is pinned.

import { announce, focusToken, tokens } from "./reading.js";
import { linkOfRow } from "./rows.js";

const PARTS = ["page", "view", "flips"];

let used = null; // before a swap: {element, find, fork, inside}; `find` returns what took the element's place

function pick(selector, index) {
  const all = [...document.querySelectorAll(selector)];
  return all[index] ?? all.at(-1);
}

function ofToken(token) {
  const own = `[data-k="${CSS.escape(token.closest("[data-k]").dataset.k)}"] .t[data-p="${token.dataset.p}"]`;
  if (token.closest("#fork")) return () => document.querySelector(`#fork ${own}`);
  const position = Number(token.dataset.p);
  return () => document.querySelector(`#streams ${own}`) ?? pinned() ?? nearest(position);
}

function pinned() {
  return document.querySelector("#streams .pinned");
}

// Another lane's text may be shorter.
function nearest(position) {
  const distance = (token) => Math.abs(Number(token.dataset.p) - position);
  const all = tokens(document.getElementById("streams"));
  return all.reduce((best, token) => (distance(token) < distance(best) ? token : best), all[0]);
}

function ofRow(link) {
  return () => linkOfRow(link.pathname);
}

// Of a chip that is gone the next has its place; a lane that becomes the reference is the first.
function ofChip(element) {
  const index = [...document.querySelectorAll(".chip")].indexOf(element.closest(".chip"));
  return () => {
    const chip = pick(".chip", element.matches(".chip-do") ? 0 : index);
    return (element.matches(".chip-name") && chip?.querySelector("a.chip-name")) || chip?.querySelector("summary");
  };
}

function ofAdded() {
  return () => pick(".chip summary", -1);
}

function ofChoice(link) {
  const group = `nav[aria-label="${link.closest("nav").getAttribute("aria-label")}"] a`;
  const text = link.textContent;
  return () => [...document.querySelectorAll(group)].find((other) => other.textContent === text);
}

function ofFilter(element) {
  const field = element.name ? `.filter [name="${element.name}"]` : ".filter [type=submit]";
  return () => document.querySelector(element.matches("a") ? ".filter summary" : field);
}

function ofSlider() {
  return () => document.querySelector("#view .ribbon .window");
}

const KINDS = [
  ["[data-k] .t", ofToken],
  [".flips .list a", ofRow],
  [".chip :is(a, summary)", ofChip],
  [".adds :is(a, summary)", ofAdded],
  [".switch a, #flips .pager a", ofChoice],
  [".filter :is(a, select, input)", ofFilter],
  [".ribbon .window", ofSlider],
];

function leave(event) {
  const part = event.detail.target;
  if (!PARTS.includes(part?.id)) return;
  const active = document.activeElement;
  const element = part.contains(active) ? active : event.detail.requestConfig?.elt;
  const [selector, successor] = KINDS.find(([one]) => element?.closest(one)) ?? [];
  const fork = document.getElementById("fork") ? location.pathname : null;
  used = { element, find: successor?.(element.closest(selector)), fork, inside: Boolean(element?.closest("#fork")) };
}

function saidOf(heading) {
  const letters = (one) => [...one.querySelectorAll(".head")].map((head) => head.textContent.trim()).join(", ");
  const all = [...heading.querySelectorAll(".says")];
  return all.map((one) => `${letters(one)}: ${one.querySelector(".words").textContent.trim()}`).join("; ");
}

// An open fork is read from its heading on, unless the reader goes through the list or through text.
function opened(fork, there) {
  fork.scrollIntoView({ block: "nearest" });
  const heading = document.getElementById("fork-title");
  const stays = there && !there.matches("a.t");
  if (stays) focus(there);
  else heading.focus({ preventScroll: true });
  if (stays && !there.matches(".t")) announce(saidOf(heading));
}

function flipOf(path) {
  const flips = [...document.querySelectorAll("#streams a.t")];
  const position = /\/f\/(\d+)/.exec(path)?.[1];
  return flips.find((flip) => flip.pathname === path) ?? document.querySelector(`#streams .t[data-p="${position}"]`);
}

function focus(element) {
  if (element?.matches(".t")) focusToken(element);
  else element?.focus({ preventScroll: true });
}

// After a swap, and after what came is ready to be read.
export function keepFocus(event) {
  const part = event.detail.target?.id;
  if (!used || !PARTS.includes(part)) return;
  const { element, find, fork: before, inside } = used;
  used = null;
  const fork = document.getElementById("fork");
  const there = find?.();
  if (part === "page" && fork && location.pathname !== before) return opened(fork, there);
  if (document.activeElement !== document.body) return;
  if (there) return focus(there);
  if (fork && inside) return focus(document.getElementById("fork-title"));
  if (part !== "page") return;
  if (before && !fork) focus(flipOf(before));
  else if (element && element !== document.body) focus(pinned());
}

document.addEventListener("htmx:beforeSwap", leave);
