// The ribbon: a click or a drag goes there. Of a long text its window follows the reader, and is a slider for the keys.

import { focusToken } from "./reading.js";
import { isTranscript, scrollToPosition, visible } from "./transcript.js";

let waiting = false;
let dragging = false;

function ribbon() {
  return document.querySelector("#view .ribbon");
}

function percent(value, total) {
  return `${Math.min(Math.max((value / total) * 100, 0), 100).toFixed(3)}%`;
}

function follow() {
  waiting = false;
  const drawing = ribbon();
  const frame = isTranscript() && drawing?.querySelector(".window");
  if (!frame) return;
  const total = Number(drawing.dataset.total);
  const [first, last] = visible();
  frame.setAttribute("x", percent(first, total));
  frame.setAttribute("width", percent(Math.max(last - first, total / 400), total));
  frame.setAttribute("aria-valuenow", String(first));
  frame.setAttribute("aria-valuetext", `positions ${first.toLocaleString("en")} to ${last.toLocaleString("en")}`);
}

// The token of the reference's line where it has one there, else any.
function nearest(position) {
  const all = [...document.querySelectorAll("#streams [data-k] .t")];
  const distance = (token) => Math.abs(Number(token.dataset.p) - position);
  return all.reduce((best, token) => (distance(token) < distance(best) ? token : best), all[0]);
}

function goThere(position) {
  if (isTranscript()) return scrollToPosition(position);
  const token = nearest(position);
  token?.closest("details")?.setAttribute("open", "");
  focusToken(token);
}

function soon() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(follow);
}

function jump(event) {
  const drawing = ribbon();
  const box = drawing.getBoundingClientRect();
  const share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
  goThere(Math.floor(share * (Number(drawing.dataset.total) - 1)));
}

function press(event) {
  const drawing = event.target.closest?.(".ribbon");
  if (!drawing || !ribbon() || event.button || event.target.closest("a")) return;
  dragging = true;
  drawing.setPointerCapture(event.pointerId);
  jump(event);
}

// A press would else take the focus from the token that it went to.
function keepFocus(event) {
  if (dragging) event.preventDefault();
}

function move(event) {
  if (dragging && ribbon()) jump(event);
}

// By a page of text, or by a tenth of all of it.
function slide(event) {
  const frame = event.target.closest?.(".ribbon .window");
  if (!frame || event.ctrlKey || event.metaKey || event.altKey) return;
  const last = Number(ribbon().dataset.total) - 1;
  const [from, to] = visible();
  const page = Math.max(to - from, 1);
  const steps = { ArrowRight: page, ArrowDown: page, ArrowLeft: -page, ArrowUp: -page, PageDown: last / 10, PageUp: -last / 10 };
  const wanted = { Home: 0, End: last }[event.key] ?? (from + to) / 2 + steps[event.key];
  if (Number.isNaN(wanted)) return;
  event.preventDefault();
  scrollToPosition(Math.round(Math.min(Math.max(wanted, 0), last)));
}

export function setUpRibbon() {
  const drawing = ribbon();
  if (drawing) drawing.setAttribute("data-jumps", "");
  const frame = isTranscript() && drawing?.querySelector(".window");
  if (frame) setUpSlider(frame, Number(drawing.dataset.total));
  soon();
}

function setUpSlider(frame, total) {
  const names = { role: "slider", tabindex: "0", "aria-label": "the part of the text in view" };
  const values = { "aria-valuemin": "0", "aria-valuemax": String(total - 1), "aria-valuenow": "0" };
  for (const [name, value] of Object.entries({ ...names, ...values })) frame.setAttribute(name, value);
}

document.addEventListener("keydown", slide);
document.addEventListener("pointerdown", press);
document.addEventListener("mousedown", keepFocus);
document.addEventListener("pointermove", move);
document.addEventListener("pointerup", () => (dragging = false));
document.addEventListener("pointercancel", () => (dragging = false));
addEventListener("scroll", soon, { passive: true });
addEventListener("resize", soon, { passive: true });
