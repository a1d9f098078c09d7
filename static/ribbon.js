// The ribbon of a long text: its window follows the reader, a click or a drag goes there.

import { isTranscript, scrollToPosition, visible } from "./transcript.js";

let waiting = false;
let dragging = false;

function ribbon() {
  return isTranscript() ? document.querySelector(".ribbon") : null;
}

function percent(value, total) {
  return `${Math.min(Math.max((value / total) * 100, 0), 100).toFixed(3)}%`;
}

function follow() {
  waiting = false;
  const drawing = ribbon();
  const frame = drawing?.querySelector(".window");
  if (!frame) return;
  const total = Number(drawing.dataset.total);
  const [first, last] = visible();
  frame.setAttribute("x", percent(first, total));
  frame.setAttribute("width", percent(Math.max(last - first, total / 400), total));
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
  scrollToPosition(Math.floor(share * (Number(drawing.dataset.total) - 1)));
}

function press(event) {
  const drawing = event.target.closest?.(".ribbon");
  if (!drawing || !ribbon() || event.button || event.target.closest("a")) return;
  dragging = true;
  drawing.setPointerCapture(event.pointerId);
  jump(event);
}

function move(event) {
  if (dragging && ribbon()) jump(event);
}

export function setUpRibbon() {
  const drawing = ribbon();
  if (drawing) drawing.setAttribute("data-jumps", "");
  soon();
}

document.addEventListener("pointerdown", press);
document.addEventListener("pointermove", move);
document.addEventListener("pointerup", () => (dragging = false));
document.addEventListener("pointercancel", () => (dragging = false));
addEventListener("scroll", soon, { passive: true });
addEventListener("resize", soon, { passive: true });
