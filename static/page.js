// The entry of every page: theme, copying, and the reading aids of the streams. Runs again after each swap.

import { fitColumns } from "./columns.js";
import { setUpKeys } from "./keys.js";
import { setUpPopover } from "./popover.js";
import { prepareTokens } from "./reading.js";
import { setUpCopying } from "./copying.js";
import { setUpTheme } from "./theming.js";

document.documentElement.classList.add("scripted");

function refresh() {
  setUpTheme();
  setUpCopying();
  prepareTokens();
  fitColumns();
}

setUpPopover();
setUpKeys();
refresh();
document.addEventListener("htmx:afterSettle", refresh);
