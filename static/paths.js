// Ways through the text by keys: forks on the line that is read, a lane's own line, a position, the forms for these.

import { announce, focusToken, tokens } from "./reading.js";
import { firstInSight, firstPosition, flipAcross, goTo, isTranscript } from "./transcript.js";

function paths() {
  const words = document.querySelector("#streams[data-paths]")?.dataset.paths.split(" ") ?? [];
  return new Map(words.map((word) => word.split(":")).map(([key, parent, letters]) => [key, { parent, letters }]));
}

function keyOf(token) {
  return token.closest("[data-k]").dataset.k;
}

// A line and those that it left, up to where it left them.
function isOnPath(flip, key, known) {
  const at = keyOf(flip);
  for (let one = key; one; one = known.get(one)?.parent) if (one === at) return true;
  return false;
}

// Next or previous fork on the line that is read; of a transcript, on its text, whatever the filter.
export function byFork(step, current) {
  if (isTranscript()) return flipAcross(step, true);
  const known = paths();
  const token = current ?? document.querySelector("#streams .pinned") ?? tokens(document.getElementById("streams"))[0];
  if (!token) return;
  const key = known.has(keyOf(token)) ? keyOf(token) : known.keys().next().value;
  const position = Number(token.dataset.p);
  const flips = [...document.querySelectorAll("#streams a.t")].filter((flip) => isOnPath(flip, key, known));
  const places = flips.map((flip) => Number(flip.dataset.p));
  const wanted = step > 0 ? Math.min(...places.filter((p) => p > position)) : Math.max(...places.filter((p) => p < position));
  const there = flips.find((flip) => Number(flip.dataset.p) === wanted);
  if (there) focusToken(there);
  else announce(step > 0 ? "no later fork on this line" : "no earlier fork on this line");
}

function ask(address) {
  const options = { target: "#page", select: "#page", swap: "outerHTML show:none", push: address };
  window.htmx?.ajax("GET", address, options);
}

// Reads along a lane: its text where the page is a transcript, else the first line that is its own.
export function followLane(letter) {
  if (!document.querySelector(`.chip.lane-${letter}`)) return;
  if (isTranscript()) return followText(letter);
  const found = [...paths()].find(([, one]) => one.letters.includes(letter));
  const line = found && document.querySelector(`#streams [data-k="${found[0]}"] .t`);
  if (line) focusToken(line);
  announce(line ? `lane ${letter}` : `lane ${letter} has no line of its own`);
}

function followText(letter) {
  const address = document.querySelector(`.chip.lane-${letter}`).dataset.follow;
  if (!address) return announce("forced lanes all have the reference's text");
  const wanted = new URL(address, location.href);
  wanted.searchParams.set("at", String(firstPosition()));
  if (!document.activeElement?.closest(".stretch .t")) focusToken(firstInSight()); // it is read on in the other text
  ask(wanted.pathname + wanted.search);
}

export function enterField(id) {
  const field = document.getElementById(id);
  field?.focus();
  field?.select();
}

async function went(event) {
  if (!event.target.matches("[data-go]")) return;
  const position = Number(event.target.elements.at.value);
  if (isTranscript()) {
    if (position >= Number(document.querySelector("[data-transcript]").dataset.total)) return;
    event.preventDefault();
    return focusToken(await goTo(position));
  }
  const key = paths().keys().next().value;
  const token = document.querySelector(`#streams [data-k="${key}"] .t[data-p="${position}"]`);
  if (!token) return; // the form is sent, and the server says what there is
  event.preventDefault();
  token.closest("details")?.setAttribute("open", "");
  focusToken(token);
}

// What is left open stays out of the link.
function shorten(event) {
  if (!event.target.matches?.("[data-filter]")) return;
  const sent = event.detail.parameters;
  for (const name of Object.keys(sent)) if (sent[name] === "") delete sent[name];
}

// A table is said with commas between its cells and full stops after its rows.
function said(element) {
  if (!element.matches("table")) return element.textContent.trim();
  const rows = [...element.rows].map((row) => [...row.cells].map((cell) => cell.ariaLabel ?? cell.textContent.trim()));
  const lines = rows.map((cells) => `${cells.join(", ")}.`);
  return [element.caption ? `${element.caption.textContent.trim()}.` : "", ...lines].join(" ").trim();
}

// What was found or looked up is said, and the first place can be opened at once.
function answered(event) {
  const answer = ["found", "lookup"].includes(event.detail.target?.id) && document.getElementById(event.detail.target.id);
  if (!answer) return;
  announce([...answer.querySelectorAll("p, table")].map(said).join(" "));
  answer.querySelector("a")?.focus();
}

export function setUpPaths() {
  document.addEventListener("submit", went);
  document.addEventListener("htmx:configRequest", shorten);
  document.addEventListener("htmx:afterSettle", answered);
}
