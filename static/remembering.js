// How the place in a long text is remembered: in the address while the reader goes on, and across a swap, so that what
// is read stays where it is.

import { bottomOfRibbon, firstPosition, hold, isTranscript, middle, rest } from "./transcript.js";
import { toTheTop, tokenAt, transcript, underRibbon, visible } from "./transcript.js";

const SETTLE_MS = 300;

let place = null; // where the reader's token stood before a swap: {position, y}
let timer = 0;

// The address follows the reader, without leaving a trace in the history.
function remember() {
  clearTimeout(timer);
  if (!isTranscript()) return;
  rest();
  const address = new URL(location.href);
  const first = firstPosition();
  const pinned = Number(transcript().dataset.pinned ?? 0);
  if (first <= pinned && pinned <= visible()[1]) address.searchParams.delete("at");
  else address.searchParams.set("at", String(first));
  if (address.href !== location.href) history.replaceState(history.state, "", address);
}

function scrolled() {
  clearTimeout(timer);
  timer = setTimeout(remember, SETTLE_MS);
}

// Before a swap: which token the reader looks at, and how high it stands.
function leave(event) {
  if (!isTranscript() || event.detail.target?.id !== "page") return;
  const path = event.detail.pathInfo?.requestPath ?? "";
  const wanted = /\/f\/(\d+)/.exec(path)?.[1] ?? transcript().dataset.pinned;
  const token = wanted === undefined ? null : tokenAt(wanted);
  const y = token?.getClientRects()[0]?.top;
  const inside = y !== undefined && y > bottomOfRibbon() && y < innerHeight;
  place = inside ? { position: Number(wanted), y } : null;
}

// Other lanes, another mode or view are asked for at the place that is read now, not where the page was opened.
function carry(event) {
  if (!isTranscript() || !event.detail.elt.closest?.(".chips, .switch")) return;
  remember();
  const at = new URL(location.href).searchParams.get("at");
  const wanted = new URL(event.detail.path, location.href);
  if (at === null) wanted.searchParams.delete("at");
  else wanted.searchParams.set("at", at);
  event.detail.path = wanted.pathname + wanted.search;
}

// Brings a text that is new on the page to where its reader is.
export function arrive() {
  const at = new URL(location.href).searchParams.get("at");
  const named = /\/f\/(\d+)/.exec(location.pathname)?.[1]; // its prefix may be unknown: the nearest place is shown
  const { pinned, at: shown } = transcript().dataset;
  const wanted = place?.position ?? at ?? pinned ?? named;
  const token = wanted === undefined ? null : tokenAt(wanted);
  const before = place?.y;
  if (token) hold(token, before === undefined ? (at === null ? middle : underRibbon) : () => before);
  else if (Number(shown) > 0) toTheTop(Number(shown));
  place = null;
  remember();
}

document.addEventListener("htmx:configRequest", carry);
document.addEventListener("htmx:beforeSwap", leave);
addEventListener("scroll", scrolled, { passive: true });
