// The list of flips as a treegrid: one Tab stop, arrows by row, Right opens a fork, Left closes it, Page keys turn pages.

const LIST = ".flips .list";

let turned = 0;

function links() {
  return [...document.querySelectorAll(`${LIST} tr:not(.under) a`)];
}

function stop(link) {
  for (const other of links()) other.tabIndex = other === link ? 0 : -1;
}

// The link of the row that leads to a path, as the one that Tab reaches; null where its page of the list is not shown.
export function linkOfRow(path) {
  const link = links().find((one) => one.pathname === path) ?? null;
  if (link) stop(link);
  return link;
}

export function setUpRows() {
  const list = document.querySelector(LIST);
  if (!list) return;
  list.setAttribute("role", "treegrid");
  list.setAttribute("aria-labelledby", "flips-title");
  const open = Boolean(document.getElementById("fork"));
  for (const row of list.tBodies[0].rows) {
    const under = row.classList.contains("under");
    row.setAttribute("aria-level", under ? "2" : "1");
    if (!under) row.setAttribute("aria-expanded", String(open && row.classList.contains("current")));
  }
  const all = links();
  stop(list.querySelector("tr.current a") ?? all[0]);
  if (turned) all.at(turned > 0 ? 0 : -1)?.focus();
  turned = 0;
}

function turn(step) {
  const page = document.querySelector(`.flips .pager a[rel="${step > 0 ? "next" : "prev"}"]`);
  if (!page) return false;
  turned = step;
  page.click();
  return true;
}

function go(link, step) {
  const all = links();
  const next = all[all.indexOf(link) + step];
  if (!next) return turn(step);
  stop(next);
  next.focus();
}

function isOpen(link) {
  return link.closest("tr").getAttribute("aria-expanded") === "true";
}

const ACTIONS = {
  ArrowDown: (link) => go(link, 1),
  ArrowUp: (link) => go(link, -1),
  Home: (link) => go(link, -links().indexOf(link)),
  End: (link) => go(link, links().length - 1 - links().indexOf(link)),
  PageDown: () => turn(1),
  PageUp: () => turn(-1),
  ArrowRight: (link) => isOpen(link) || link.click(),
  ArrowLeft: (link) => isOpen(link) && document.querySelector("[data-close]")?.click(),
};

document.addEventListener("keydown", (event) => {
  const link = event.target.closest?.(`${LIST} a`);
  const action = link && !event.ctrlKey && !event.metaKey && !event.altKey && ACTIONS[event.key];
  if (!action) return;
  const done = action(link);
  if (done !== false || !event.key.startsWith("Page")) event.preventDefault();
});
