// The shapes of lanes; the drawings are in the page.

export const SHAPES = { A: "circle", B: "square", C: "triangle", D: "diamond", E: "cross" };

const SVG = "http://www.w3.org/2000/svg";

export function shape(name) {
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("class", "shape");
  drawing.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#${name}`);
  drawing.append(use);
  return drawing;
}
