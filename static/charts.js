// Draws the charts of a page with Plotly, which is a global of its own file. Figures name colours as CSS variables,
// which are resolved here, so that a chart is drawn again when the theme changes. A point that has a permalink opens it.

const CONFIG = {
  responsive: true,
  displaylogo: false,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
  toImageButtonOptions: { format: "svg" }, // a PNG would need an address that the policy forbids
};

const BAND = 0.13;

const figures = new Map();

function resolver() {
  const probe = document.createElement("span");
  document.body.append(probe);
  const known = new Map();
  const colour = (text) => {
    if (!known.has(text)) {
      probe.style.color = text;
      known.set(text, getComputedStyle(probe).color);
    }
    return known.get(text);
  };
  return { colour, done: () => probe.remove() };
}

function faint(colour) {
  const parts = colour.match(/[\d.]+/g);
  return parts ? `rgba(${parts.slice(0, 3).join(", ")}, ${BAND})` : colour;
}

// Returns the value with every colour that names a variable as the colour it stands for now.
function resolved(value, colour, name = "") {
  if (typeof value === "string") {
    if (!value.startsWith("var(--")) return value;
    const found = colour(value);
    return name === "fillcolor" ? faint(found) : found;
  }
  if (Array.isArray(value)) return value.some(holdsText) ? value.map((one) => resolved(one, colour)) : value;
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, resolved(one, colour, key)]));
}

function holdsText(value) {
  return typeof value === "string" ? value.startsWith("var(--") : value !== null && typeof value === "object";
}

function draw(place) {
  const figure = figures.get(place);
  const { colour, done } = resolver();
  const layout = resolved(figure.layout, colour);
  layout.height = Number(place.dataset.height);
  layout.font.family = getComputedStyle(document.body).fontFamily;
  if (matchMedia("(max-width: 640px)").matches) layout.margin = { ...layout.margin, l: 46, r: 6 };
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) layout.transition = { duration: 0 };
  const data = resolved(figure.data, colour);
  done();
  return globalThis.Plotly.react(place, data, layout, CONFIG);
}

function open(event) {
  const point = event.points?.find((one) => typeof one.customdata === "string" && one.customdata.startsWith("/c/"));
  if (point) location.assign(point.customdata);
}

async function load(place) {
  const answer = await fetch(place.dataset.chart, { headers: { accept: "application/json" } });
  if (!answer.ok) throw new Error(`the data of a chart: ${answer.status}`);
  const { figure } = await answer.json();
  figures.set(place, figure);
  await draw(place);
  place.on("plotly_click", open);
  place.classList.add("drawn");
}

async function show(place) {
  try {
    await load(place);
  } catch {
    place.classList.add("failed"); // the table below has the data
    place.closest("figure").querySelector("details")?.setAttribute("open", "");
  }
}

function redraw() {
  for (const place of figures.keys()) draw(place);
}

function setUp() {
  const places = document.querySelectorAll(".plot[data-chart]");
  if (!globalThis.Plotly) return;
  const near = new IntersectionObserver(
    (entries) => {
      for (const entry of entries.filter((one) => one.isIntersecting)) {
        near.unobserve(entry.target);
        show(entry.target);
      }
    },
    { rootMargin: "600px" },
  );
  for (const place of places) {
    place.closest("figure").querySelector("details")?.removeAttribute("open");
    place.style.height = `${place.dataset.height}px`;
    near.observe(place);
  }
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

setUp();
