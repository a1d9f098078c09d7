// The entry of an exported page: hover tables, by the pointer and by the keyboard. Asks nothing of anybody.

import { close, setUpPopover } from "./popover.js";
import { prepareTokens } from "./reading.js";

document.documentElement.classList.add("scripted");
setUpPopover();
prepareTokens();
for (const token of document.querySelectorAll("[data-k] .flip, [data-k] .tie, [data-k] .quiet")) token.tabIndex = 0;
document.addEventListener("keydown", (event) => event.key === "Escape" && close());
