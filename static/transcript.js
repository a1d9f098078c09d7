// A long text by chunks: those near the window are asked for and filled in, those far from it are emptied again, so that
// the page stays small whatever the length. Heights of what is not there are estimated from its characters.

import { announce, focusToken, readyTokens } from "./reading.js";

const NEAR_PX = 1000; // chunks this near to the window are filled
const FAR_PX = 3200; // chunks farther from it are emptied
const BELOW_PX = 4; // where the first line stands, under the ribbon
const NEAR_CHUNKS = 8; // looked through for flips that are not marked
const KEPT = 40; // answers kept for scrolling back
const SETTLE_MS = 300;
const RETRY_MS = 2000;
const WRAPPING = 1.06; // lines are not full: words wrap
const SHORT_LINES = 0.55; // what a line break adds, in lines

let text = null; // the transcript on the page: {root, plan, chunks, near, far}
const answers = new Map();
const pending = new Map();

function planOf(root) {
  let first = 0;
  return root.dataset.plan.split(" ").map((words) => {
    const [size, cells, breaks] = words.split(":").map(Number);
    const part = { first, stop: first + size, cells, breaks };
    first += size;
    return part;
  });
}

// Heights

function measure() {
  const probe = document.createElement("span");
  probe.className = "measure";
  probe.textContent = "0".repeat(100);
  text.root.append(probe);
  const cell = probe.getBoundingClientRect().width / 100;
  const style = getComputedStyle(text.root);
  probe.remove();
  text.columns = Math.max(Math.floor((text.root.clientWidth - insetOf()) / cell), 10);
  text.line = parseFloat(style.lineHeight);
  text.scale = scaleOf();
}

function insetOf() {
  const stretch = text.root.querySelector(".stretch");
  return stretch ? parseFloat(getComputedStyle(stretch).paddingLeft) : 120;
}

function lines(part) {
  return Math.max((part.cells / text.columns) * WRAPPING + part.breaks * SHORT_LINES, 1);
}

// What the filled chunks really take, as a share of what was thought.
function scaleOf() {
  let real = 0;
  let thought = 0;
  for (const [index, chunk] of text.chunks.entries()) {
    if (chunk.classList.contains("empty") || chunk.querySelector(".fork")) continue;
    real += chunk.offsetHeight;
    thought += lines(text.plan[index]) * text.line;
  }
  return thought ? real / thought : 1;
}

function placeholder(index) {
  const made = document.createElement("div");
  const { first, stop } = text.plan[index];
  made.className = "chunk empty";
  made.dataset.chunk = index;
  made.dataset.label = `${first.toLocaleString("en")} – ${(stop - 1).toLocaleString("en")}`;
  return made;
}

function size(chunk, index) {
  const known = text.heights.get(index);
  chunk.style.height = `${known ?? Math.round(lines(text.plan[index]) * text.line * text.scale)}px`;
}

// A chunk that has been laid out may be skipped by the browser while it is out of sight.
function settle(chunk, index) {
  const { height } = chunk.getBoundingClientRect();
  text.heights.set(index, height);
  skip(chunk, height);
  return height;
}

function skip(chunk, height) {
  chunk.style.containIntrinsicHeight = `auto ${height}px`;
  chunk.classList.add("settled");
}

// Filling and emptying

function addressOf(index) {
  return text.root.dataset.chunks.replace("{}", String(index));
}

async function answerOf(address, signal) {
  const kept = answers.get(address);
  if (kept) return kept;
  const answer = await fetch(address, { signal, headers: { "HX-Request": "true" } });
  if (!answer.ok) throw new Error(`the text could not be read (${answer.status})`);
  const html = await answer.text();
  answers.set(address, html);
  if (answers.size > KEPT) answers.delete(answers.keys().next().value);
  return html;
}

function fill(index) {
  const own = text;
  const chunk = own.chunks[index];
  if (!chunk.classList.contains("empty")) return Promise.resolve(chunk);
  if (pending.has(chunk)) return pending.get(chunk).done;
  const control = new AbortController();
  const done = answerOf(addressOf(index), control.signal)
    .then((html) => (own === text ? put(index, html) : null))
    .catch((error) => {
      if (error.name !== "AbortError" && own === text) retry(chunk);
      return null;
    })
    .finally(() => pending.delete(chunk));
  pending.set(chunk, { done, control });
  return done;
}

function retry(chunk) {
  setTimeout(() => {
    if (!chunk.isConnected || !text) return;
    text.near.unobserve(chunk);
    text.near.observe(chunk);
  }, RETRY_MS);
}

function put(index, html) {
  const old = text.chunks[index];
  const holder = document.createElement("template");
  holder.innerHTML = html;
  const made = holder.content.querySelector(".chunk");
  if (!made) return null;
  const before = old.getBoundingClientRect();
  if (before.top > innerHeight) skip(made, before.height); // laid out when it comes into sight, and not before
  replace(index, old, made);
  readyTokens(made);
  window.htmx?.process(made);
  if (before.bottom <= 1) stay(made, index, before.height);
  return made;
}

function replace(index, old, made) {
  old.replaceWith(made);
  text.chunks[index] = made;
  for (const observer of [text.near, text.far]) {
    observer.unobserve(old);
    observer.observe(made);
  }
}

// What came above the window may be higher than was thought; what the reader sees stays where it is.
function stay(made, index, thought) {
  const height = settle(made, index);
  if (height !== thought) scrollBy({ top: height - thought, behavior: "instant" });
}

function isHeld(chunk) {
  return chunk.querySelector(".fork, .pinned") || chunk.contains(document.activeElement);
}

function empty(index, height) {
  const chunk = text.chunks[index];
  if (chunk.classList.contains("empty") || isHeld(chunk)) return;
  text.heights.set(index, height);
  const made = placeholder(index);
  size(made, index);
  replace(index, chunk, made);
}

function cameNear(entries) {
  const distance = ({ boundingClientRect: box }) => Math.abs(box.top + box.bottom - innerHeight);
  for (const { target, isIntersecting } of entries.sort((one, other) => distance(one) - distance(other))) {
    if (isIntersecting) fill(Number(target.dataset.chunk));
    else pending.get(target)?.control.abort();
  }
}

function wentFar(entries) {
  for (const { target, isIntersecting, boundingClientRect: box } of entries) {
    if (!isIntersecting && target.isConnected) empty(Number(target.dataset.chunk), box.height);
  }
}

// Where the reader is

// The ribbon may stand over the text; what is behind it is not in sight.
export function bottomOfRibbon() {
  const above = document.querySelector(".over-all");
  return above ? Math.max(above.getBoundingClientRect().bottom, 0) * (getComputedStyle(above).position === "sticky") : 0;
}

export function underRibbon() {
  return bottomOfRibbon() + BELOW_PX;
}

export function middle() {
  return bottomOfRibbon() + (innerHeight - bottomOfRibbon()) / 3;
}

function chunkOf(position) {
  const index = text.plan.findIndex((part) => position < part.stop);
  return index < 0 ? text.plan.length - 1 : index;
}

export function tokenAt(position) {
  return text.root.querySelector(`.stretch .t[data-p="${position}"]`);
}

function chunkAt(y) {
  let low = 0;
  let high = text.chunks.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (text.chunks[middle].getBoundingClientRect().bottom > y) high = middle;
    else low = middle + 1;
  }
  return low;
}

// About which position is at a height, also of text that has not come yet.
function positionAt(y) {
  const index = chunkAt(y);
  const box = text.chunks[index].getBoundingClientRect();
  const share = box.height ? Math.min(Math.max((y - box.top) / box.height, 0), 1) : 0;
  const { first, stop } = text.plan[index];
  return Math.min(Math.round(first + share * (stop - first)), Math.max(stop - 1, first));
}

// The positions that are in the window, about.
export function visible() {
  return text ? [positionAt(bottomOfRibbon()), positionAt(innerHeight)] : null;
}

// The first token that begins on the first line in sight, which the space before a word need not; null where the text of
// that line has not come yet.
export function firstInSight() {
  const edge = underRibbon();
  for (const chunk of text.chunks.slice(chunkAt(edge))) {
    if (chunk.classList.contains("empty")) return null;
    const below = [...chunk.querySelectorAll(".stretch .t")].filter((token) => {
      return token.getBoundingClientRect().bottom > edge;
    });
    if (below.length) return below.find((token) => token.getClientRects().length === 1) ?? below[0];
  }
  return null;
}

export function firstPosition() {
  const token = firstInSight();
  return token ? Number(token.dataset.p) : positionAt(bottomOfRibbon());
}

export function isTranscript() {
  return Boolean(text?.root.isConnected);
}

// The element that holds the text.
export function transcript() {
  return text.root;
}

// Brings a position into the window without waiting for its text.
export function scrollToPosition(position) {
  const index = chunkOf(position);
  const { first, stop } = text.plan[index];
  const box = text.chunks[index].getBoundingClientRect();
  const share = stop > first ? (position - first) / (stop - first) : 0;
  scrollBy({ top: box.top + share * box.height - middle(), behavior: "instant" });
}

// Brings a token into the window, and returns it.
export async function goTo(position) {
  const index = chunkOf(position);
  if (!tokenAt(position)) scrollToPosition(position);
  await fill(index);
  const token = tokenAt(position);
  if (token) hold(token, middle);
  return token;
}

// Brings a token to a height, which `height` says; twice, since the ribbon stands elsewhere once the page has scrolled.
export function hold(token, height) {
  for (const y of [height, height]) {
    const distance = (token.getClientRects()[0]?.top ?? y()) - y();
    if (Math.abs(distance) > 1) scrollBy({ top: distance, behavior: "instant" });
  }
}

// Next and previous flip, also where the chunk is not in the page

function inSight(token) {
  const box = token.getClientRects()[0];
  return box && box.bottom > bottomOfRibbon() && box.top < innerHeight;
}

function start() {
  const focused = document.activeElement?.closest(".stretch .t");
  const pinned = text.root.querySelector(".stretch .pinned");
  const token = [focused, pinned].find((one) => one && inSight(one));
  return token ? [Number(token.dataset.p), false] : [firstPosition(), true];
}

// Next or previous flip; `every` counts those that are not marked, too, where one is near.
export async function flipAcross(step, every = false) {
  const [from, included] = start();
  const first = chunkOf(from);
  const fits = (p) => (p === from ? included && step > 0 : p > from === step > 0);
  let wanted = null;
  for (let index = first; wanted === null && text.chunks[index]; index += step) {
    const chunk = await fill(index);
    if (!chunk) return;
    const flips = [...chunk.querySelectorAll(every ? ".stretch a.t" : ".stretch a.t:not(.quiet)")];
    wanted = flips.map((flip) => Number(flip.dataset.p)).filter(fits).at(step > 0 ? 0 : -1) ?? null;
    if (wanted !== null || (every && Math.abs(index - first) < NEAR_CHUNKS)) continue;
    wanted = Number((step > 0 ? chunk.dataset.later : chunk.dataset.earlier) ?? -1);
  }
  if (wanted === null || wanted < 0) return announce(step > 0 ? "no later flip" : "no earlier flip");
  const known = tokenAt(wanted);
  focusToken(known && inSight(known) ? known : await goTo(wanted));
}

// Chunks that came into sight unmeasured are measured once the reader has stopped.
export function rest() {
  for (const [index, chunk] of text.chunks.entries()) {
    if (!chunk.classList.contains("empty") && !chunk.classList.contains("settled")) settle(chunk, index);
  }
}

let width = 0;
let resizing = 0;

function resized() {
  if (!isTranscript() || innerWidth === width) return;
  clearTimeout(resizing);
  resizing = setTimeout(() => {
    width = innerWidth;
    const at = positionAt(bottomOfRibbon());
    const first = firstInSight();
    text.heights.clear();
    measure();
    for (const [index, chunk] of text.chunks.entries()) {
      if (chunk.classList.contains("empty")) size(chunk, index);
      else settle(chunk, index);
    }
    if (at > 0 && first) hold(first, underRibbon);
    else if (at > 0) toTheTop(at);
  }, SETTLE_MS);
}

export function toTheTop(position) {
  hold(text.chunks[chunkOf(position)], bottomOfRibbon);
}

function watch() {
  text.near = new IntersectionObserver(cameNear, { rootMargin: `${NEAR_PX}px 0px` });
  text.far = new IntersectionObserver(wentFar, { rootMargin: `${FAR_PX}px 0px` });
  for (const chunk of text.chunks) {
    text.near.observe(chunk);
    text.far.observe(chunk);
  }
}

// Returns whether the page has a text that is new to it.
export function setUpTranscript() {
  const root = document.querySelector("[data-transcript]");
  if (text && text.root === root) return false;
  text?.near.disconnect();
  text?.far.disconnect();
  text = root ? { root, plan: planOf(root), chunks: [], heights: new Map() } : null;
  if (!text) return false;
  width = innerWidth;
  history.scrollRestoration = "manual"; // heights are estimates, so pixels would lead elsewhere
  const there = new Map([...root.querySelectorAll(".chunk")].map((chunk) => [Number(chunk.dataset.chunk), chunk]));
  text.chunks = text.plan.map((_, index) => there.get(index) ?? placeholder(index));
  measure();
  for (const [index, chunk] of text.chunks.entries()) {
    if (there.has(index)) settle(chunk, index);
    else size(chunk, index);
  }
  root.append(...text.chunks);
  watch();
  return true;
}

addEventListener("resize", resized, { passive: true });
