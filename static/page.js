// The entry of every page: theme, copying, and the reading aids of the streams. Runs again after each swap.

import { fitColumns } from "./columns.js";
import { setUpKeys } from "./keys.js";
import { setUpPaths } from "./paths.js";
import { setUpPopover } from "./popover.js";
import { announce, focusToken, prepareTokens } from "./reading.js";
import { setUpCopying } from "./copying.js";
import { setUpGrowing } from "./growing.js";
import { setUpRibbon } from "./ribbon.js";
import { setUpRows } from "./rows.js";
import { setUpTheme } from "./theming.js";
import { setUpTranscript } from "./transcript.js";

document.documentElement.classList.add("scripted");

function refresh() {
  setUpTheme();
  setUpCopying();
  prepareTokens();
  fitColumns();
  setUpTranscript();
  setUpRibbon();
  setUpRows();
  showCurrentFlip();
  setUpGrowing();
}

// The open flip stands in the middle of a list that is longer than its pane.
function showCurrentFlip() {
  const row = document.querySelector(".flips tr.current");
  const list = row?.closest(".flips");
  if (!list || list.scrollHeight <= list.clientHeight) return;
  const distance = row.getBoundingClientRect().top - list.getBoundingClientRect().top;
  list.scrollTop += distance - list.clientHeight / 2;
}

// After a swap the reader is where the change is: at the fork that opened, or back at the flip that was closed.
let openFork = document.getElementById("fork") ? location.pathname : null;

function follow(event) {
  refresh();
  if (event.detail.target?.id !== "page") return;
  const fork = document.getElementById("fork");
  if (fork) {
    document.getElementById("fork-title").focus({ preventScroll: true });
    fork.scrollIntoView({ block: "nearest" });
  } else if (openFork) {
    const flips = [...document.querySelectorAll("#streams a.t")];
    focusToken(flips.find((flip) => flip.pathname === openFork));
  }
  openFork = fork ? location.pathname : null;
}

// An answer that is no page of ours is shown as the page it is; silence is said.
function failed(event) {
  const path = event.detail.pathInfo?.finalRequestPath ?? event.detail.pathInfo?.requestPath;
  if (event.type === "htmx:responseError" && path) location.assign(path);
  else announce("The server cannot be reached.");
}

setUpPopover();
setUpKeys();
setUpPaths();
refresh();
document.addEventListener("htmx:afterSettle", follow);
document.addEventListener("htmx:responseError", failed);
document.addEventListener("htmx:sendError", failed);
