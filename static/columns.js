// Asks the server for lines as long as there is room: layout is computed there, in monospace cells.

const FEWEST = 30;
const MOST = 180;
const SETTLE_MS = 180;

let asked = 0;
let timer = 0;
let watching = false;

function cellWidth(streams) {
  const probe = document.createElement("span");
  probe.className = "measure";
  probe.textContent = "0".repeat(100);
  streams.append(probe);
  const width = probe.getBoundingClientRect().width / 100;
  probe.remove();
  return width;
}

function room(streams) {
  const line = streams.querySelector(".line");
  if (!line) return 0;
  const inset = parseFloat(getComputedStyle(line).paddingLeft);
  const cells = Math.floor((streams.clientWidth - inset - 2) / cellWidth(streams));
  return Math.min(Math.max(cells, FEWEST), MOST);
}

export function fitColumns() {
  watch();
  const streams = document.getElementById("streams");
  const view = document.getElementById("view");
  if (!streams || !view || !window.htmx) return;
  const columns = room(streams);
  if (!columns || columns === Number(streams.dataset.columns) || columns === asked) return;
  asked = columns;
  const address = new URL(view.dataset.address, location.href);
  address.searchParams.set("columns", String(columns));
  // A token that was looked up stays in sight; the page's own address does not name it.
  const answered = document.querySelector("#lookup table, #lookup .hint");
  if (answered) address.searchParams.set("look", document.getElementById("look").value);
  window.htmx.ajax("GET", address.pathname + address.search, {
    source: view, // several requests of one element replace each other
    target: "#view",
    select: "#view",
    swap: "outerHTML show:none",
  });
}

// The address says what is shown; how wide this window happens to be is no part of it.
function cleanAddress() {
  const address = new URL(location.href);
  if (!address.searchParams.has("columns")) return;
  address.searchParams.delete("columns");
  history.replaceState(history.state, "", address);
}

function watch() {
  if (watching) return;
  watching = true;
  cleanAddress();
  document.addEventListener("htmx:pushedIntoHistory", cleanAddress);
  addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      asked = 0;
      fitColumns();
    }, SETTLE_MS);
  });
}
