// One shared popover with the table of a token: opens after 150 ms, swaps at once, closes after 80 ms, Esc closes. On a
// touch screen a tap on a token opens it, one elsewhere closes it.

import { SHAPES, shape } from "./shapes.js";
import { entryOf, prefetch } from "./tables.js";

const OPEN_MS = 150;
const CLOSE_MS = 80;
const MARGIN = 8;
const WINNER = 1;
const BOUND = 2;

let popover = null;
let opening = 0;
let closing = 0;
let shown = null; // the token whose table is open
let wanted = null; // the token that was asked for last
let tapped = null; // what the last pointer touched, and whether its table was open: {token, again}; null of a mouse

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function tokenLabel(pieces) {
  const label = element("bdi", "tok");
  for (const [text, look] of pieces) label.append(look ? element("span", look, text) : text);
  return label;
}

function head(letter) {
  const made = element("span", `head lane-${letter}`);
  made.append(shape(SHAPES[letter]), letter);
  return made;
}

function cell(value, letter) {
  if (!value) return element("td", "absent", "–");
  const [text, percent, bits] = value;
  const made = element("td", `cell lane-${letter}${bits & WINNER ? " winner" : ""}${bits & BOUND ? " bound" : ""}`);
  if (!(bits & BOUND)) made.append(element("i", `bar w-${Math.round(percent)}`));
  made.append(element("span", "", text));
  return made;
}

function tableOf(entry) {
  const table = element("table", "odds");
  const top = table.createTHead().insertRow();
  top.append(element("th", "", "token"));
  for (const letter of entry.lanes) {
    const th = element("th");
    th.append(head(letter));
    top.append(th);
  }
  const body = table.createTBody();
  for (const [pieces, cells] of entry.rows) {
    const row = body.insertRow();
    const th = element("th");
    th.scope = "row";
    th.append(tokenLabel(pieces));
    row.append(th, ...cells.map((value, at) => cell(value, entry.lanes[at])));
  }
  const rest = body.insertRow();
  rest.className = "rest";
  rest.append(element("th", "", "rest"), ...entry.rest.map((text) => element("td", "", text || "–")));
  return table;
}

function fill(entry) {
  const title = element("p", "popover-title");
  title.append(element("strong", "", entry.position.toLocaleString("en")), tokenLabel(entry.token));
  if (entry.flip) title.append(element("span", "popover-flip", entry.flip));
  const gone = entry.lanes.filter((letter) => !entry.here.includes(letter));
  popover.replaceChildren(title, tableOf(entry));
  if (gone.length) popover.append(element("p", "unit", `${gone.join(", ")} had left before: another context`));
}

function place(token) {
  const box = token.getClientRects()[0] ?? token.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = popover;
  const below = box.bottom + MARGIN;
  const above = box.top - height - MARGIN;
  const top = below + height <= innerHeight || above < MARGIN ? below : above;
  popover.style.left = `${Math.max(MARGIN, Math.min(box.left - 12, innerWidth - width - MARGIN))}px`;
  popover.style.top = `${Math.max(MARGIN, Math.min(top, innerHeight - height - MARGIN))}px`;
}

async function show(token) {
  wanted = token;
  const entry = await entryOf(token);
  if (!entry || wanted !== token || !token.isConnected) return;
  shown = token;
  fill(entry);
  place(token);
  popover.classList.add("open");
}

export function isOpen() {
  return popover?.classList.contains("open") ?? false;
}

export function close() {
  clearTimeout(opening);
  clearTimeout(closing);
  wanted = shown = null;
  popover?.classList.remove("open");
}

export function open(token, delay = OPEN_MS) {
  clearTimeout(opening);
  clearTimeout(closing);
  wanted = token;
  if (token === shown && isOpen()) return;
  prefetch(Number(token.dataset.p)); // the answer can come during the delay
  if (isOpen()) show(token);
  else opening = setTimeout(() => show(token), delay);
}

function closeSoon() {
  clearTimeout(opening);
  clearTimeout(closing);
  closing = setTimeout(close, CLOSE_MS);
}

// A table that the keyboard opened stays while its token has the focus.
function isHeld() {
  return wanted !== null && wanted === document.activeElement && wanted.matches(":focus-visible");
}

export function isFirstTap(token) {
  return tapped?.token === token && !tapped.again;
}

function tokenAt(event) {
  return event.target.closest?.("[data-k] .t") ?? null;
}

function enter(event) {
  if (event.pointerType === "touch" || event.buttons) return;
  const token = tokenAt(event);
  if (event.target.closest?.(".popover")) clearTimeout(closing);
  else if (token) open(token);
  else if (!isHeld()) closeSoon();
}

function leave(event) {
  if (event.pointerType !== "touch") closeSoon();
}

// The focus goes on to what is no token; the pointer may still be reading.
function blur(event) {
  if (event.target !== wanted || event.relatedTarget?.closest?.("[data-k] .t")) return;
  if (!wanted.matches(":hover") && !popover.matches(":hover")) close();
}

function tap(event) {
  const token = tokenAt(event);
  tapped = event.pointerType === "touch" && token ? { token, again: token === shown } : null;
  if (!token && !event.target.closest?.(".popover")) close();
  if (!tapped || token.matches("a")) return;
  if (!tapped.again) open(token, 0);
  else if (!window.htmx) close(); // else the second tap pins
}

export function setUpPopover() {
  popover = element("div", "popover");
  popover.id = "popover";
  popover.setAttribute("role", "tooltip");
  document.body.append(popover);
  document.addEventListener("pointerover", enter);
  document.addEventListener("pointerup", tap);
  document.documentElement.addEventListener("pointerleave", leave);
  document.addEventListener("focusout", blur);
  addEventListener("scroll", () => shown && place(shown), { passive: true, capture: true });
  document.addEventListener("htmx:beforeSwap", close);
}
