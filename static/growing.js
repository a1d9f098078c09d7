// Growing a continuation: starts it, follows it by server-sent events, and shows it in place when it is there.

import { announce } from "./reading.js";

const ENDS = ["done", "failed", "cancelled"];
const STATES = ["queued", "starting", "progress", ...ENDS];
const QUARTERS = 4;

let sources = [];

export function setUpGrowing() {
  for (const source of sources) source.close();
  sources = [];
  for (const form of document.querySelectorAll("form[data-grow]")) onSubmit(form, start);
  for (const form of document.querySelectorAll("form[data-grow-cancel]")) onSubmit(form, cancel);
  for (const job of document.querySelectorAll("[data-events]")) follow(job);
}

function onSubmit(form, act) {
  if (form.dataset.ready) return;
  form.dataset.ready = "true";
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    form.querySelector("button").disabled = true;
    act(form);
  });
}

async function post(address, form) {
  try {
    const answer = await fetch(address, { method: "POST", body: new URLSearchParams(new FormData(form)) });
    return { ok: answer.ok, answer };
  } catch {
    return { ok: false };
  }
}

async function start(form) {
  const { ok, answer } = await post(`${form.getAttribute("action")}.json`, form);
  if (ok) return show(form.elements.back.value);
  const body = await answer?.json().catch(() => null);
  refuse(form, body?.error ?? "The server cannot be reached.");
}

async function cancel(form) {
  const { ok } = await post(form.getAttribute("action"), form);
  if (!ok) refuse(form, "The server cannot be reached.");
}

function refuse(form, sentence) {
  const place = form.closest(".grow-way").querySelector(".refused");
  place.textContent = sentence;
  place.hidden = false;
  form.querySelector("button").disabled = false;
}

// The fork is asked for again, with all that follows from it: marks, list, table.
function show(address) {
  window.htmx.ajax("GET", address, { target: "#page", select: "#page", swap: "outerHTML show:none" });
}

function follow(job) {
  const source = new EventSource(job.dataset.events);
  sources.push(source);
  for (const state of STATES) {
    source.addEventListener(state, (event) => tell(job, source, state, JSON.parse(event.data)));
  }
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) job.querySelector(".note").textContent = "The server cannot be reached.";
  });
}

function tell(job, source, state, now) {
  if (ENDS.includes(state)) {
    source.close();
    announce(state === "done" ? "The continuation has grown." : now.sentence || `Growing was ${state}.`);
    show(job.dataset.back);
    return;
  }
  const bar = job.querySelector("progress");
  bar.max = now.most || 1;
  bar.value = now.steps;
  say(job, now.most ? `${now.state}: ${quarter(now)}of ${now.most} positions` : now.state);
}

// Said aloud at quarters only; the bar shows the rest.
function quarter({ steps, most }) {
  const part = Math.floor((QUARTERS * steps) / most);
  return part ? `${Math.floor((part * most) / QUARTERS)} ` : "";
}

function say(job, text) {
  const note = job.querySelector(".note");
  if (note.textContent !== text) note.textContent = text;
}
