// The tables of an exported page, which holds them itself; takes the place of tables.js there.

const { tables, lanes } = JSON.parse(document.getElementById("tables").textContent);

export function prefetch() {}

// Returns the entry of a token and the letters of the lanes, or null where there is none.
export async function entryOf(token) {
  const key = token.closest("[data-k]")?.dataset.k;
  const position = Number(token.dataset.p);
  const entry = tables[`${key}:${position}`];
  return entry ? { ...entry, lanes, position } : null;
}
