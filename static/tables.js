// The tables of a page by chunk of positions, each asked for once.

const chunks = new Map();

function chunkAddress(index) {
  const view = document.getElementById("view");
  const address = new URL(view.dataset.tables, location.href);
  const size = Number(view.dataset.chunk);
  address.searchParams.delete("columns");
  address.searchParams.set("first", String(index * size));
  address.searchParams.set("count", String(size));
  return address.href;
}

async function load(address) {
  const answer = await fetch(address, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`the tables could not be read (${answer.status})`);
  return answer.json();
}

function chunk(index) {
  const address = chunkAddress(index);
  if (!chunks.has(address)) {
    const answer = load(address);
    chunks.set(address, answer);
    answer.catch(() => chunks.delete(address)); // ask again at the next hover
  }
  return chunks.get(address);
}

// Asks for what the first hover will need.
export function prefetch(position) {
  const view = document.getElementById("view");
  if (view) chunk(Math.floor(position / Number(view.dataset.chunk))).catch(() => null);
}

// Returns the entry of a token and the letters of the lanes, or null where there is none.
export async function entryOf(token) {
  const view = document.getElementById("view");
  const key = token.closest("[data-k]")?.dataset.k;
  if (!view || !key) return null;
  const position = Number(token.dataset.p);
  try {
    const { tables, lanes } = await chunk(Math.floor(position / Number(view.dataset.chunk)));
    const entry = tables[`${key}:${position}`];
    return entry ? { ...entry, lanes, position } : null;
  } catch {
    return null;
  }
}
