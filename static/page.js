// The entry of every page: theme, copying, and the reading aids of the streams. Runs again after each swap.

import { fitColumns } from "./columns.js";
import { setUpKeys } from "./keys.js";
import { setUpPaths } from "./paths.js";
import { setUpPopover } from "./popover.js";
import { announce, prepareTokens } from "./reading.js";
import { setUpCopying } from "./copying.js";
import { keepFocus } from "./focus.js";
import { setUpGrowing } from "./growing.js";
import { arrive } from "./remembering.js";
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
  if (setUpTranscript()) arrive();
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

function follow(event) {
  refresh();
  keepFocus(event);
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
