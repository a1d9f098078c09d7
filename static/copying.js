// Buttons that copy: an address (made absolute) or the text of a field.

import { announce } from "./reading.js";

const SAID_MS = 1600;

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text); // no clipboard outside of secure contexts
  }
}

function copyBySelection(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}

// The server does not know under which name it is reached, so the last line's address is completed here.
function absoluteLinks(text) {
  return text.replace(/^\/c\/\S+$/gm, (path) => new URL(path, location.href).href);
}

function textOf(button) {
  if (button.dataset.copyLink) return new URL(button.dataset.copyLink, location.href).href;
  return absoluteLinks(document.getElementById(button.dataset.copyFrom)?.value ?? "");
}

async function copyFrom(button) {
  const words = button.textContent;
  const done = await copy(textOf(button));
  button.textContent = done ? "Copied" : "Copying was refused";
  announce(button.textContent);
  setTimeout(() => (button.textContent = words), SAID_MS);
}

export function setUpCopying() {
  for (const button of document.querySelectorAll("[data-copy-link][hidden], [data-copy-from][hidden]")) {
    button.hidden = false;
    button.addEventListener("click", () => copyFrom(button));
  }
  for (const field of document.querySelectorAll("textarea[readonly]")) field.value = absoluteLinks(field.value);
}
