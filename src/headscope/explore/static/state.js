// What is shown, kept in the address: a link reproduces the view.

export const DEFAULTS = {
  text: "", id: "", model: 0,
  text2: "", id2: "", model2: 0, pair: false,
  heads: /** @type {string[]} */ ([]), heads2: /** @type {string[]} */ ([]), mode: "one", view: "auto", words: false, hide: false,
  weights: "attention", gold: "", way: "up", token: -1,
  tab: "maps", side: 0, measure: "", sort: "layer", filter: "", brushed: /** @type {string[]} */ ([]),
  x: "", y: "", c: "", off: /** @type {string[]} */ ([]), how: "zero", place: -1,
};

/** @typedef {typeof DEFAULTS} State */
/** @typedef {(state: State, changed: Set<string>) => void} Listener */

/** @type {State} */
export const state = { ...DEFAULTS };
/** @type {Listener[]} */
const listeners = [];

/** @param {Listener} listener */
export function listen(listener) {
  listeners.push(listener);
}

let isWaiting = false;

/** The address says what is shown, once the page has drawn it: a long text makes a long address. */
function tellAddress() {
  if (isWaiting) return;
  isWaiting = true;
  setTimeout(() => {
    isWaiting = false;
    if (location.protocol !== "about:") history.replaceState(null, "", `#${toHash(state)}`); // a cell has no address
  });
}

/** The heads of the first text, or of the second where its model has others chosen.
 * @param {number} side 0 or 1 */
export const headsOf = (side) => (side && state.heads2.length ? state.heads2 : state.heads);

/** Change some of what is shown.
 * @param {Partial<State>} values */
export function update(values) {
  const changed = new Set(Object.keys(values).filter(
    (name) => JSON.stringify(values[/** @type {keyof State} */ (name)])
      !== JSON.stringify(state[/** @type {keyof State} */ (name)])));
  Object.assign(state, values);
  if (!changed.size) return;
  for (const listener of listeners) listener(state, changed);
  tellAddress();
}

/** What differs from the defaults, as the end of an address.
 * @param {State} values */
export function toHash(values) {
  const said = new URLSearchParams();
  for (const [name, usual] of Object.entries(DEFAULTS)) {
    const value = values[/** @type {keyof State} */ (name)];
    if (JSON.stringify(value) !== JSON.stringify(usual)) {
      said.set(name, Array.isArray(value) ? value.join(",") : String(value));
    }
  }
  return said.toString();
}

/** @param {string} hash @returns {Partial<State>} */
export function fromHash(hash) {
  /** @type {Record<string, unknown>} */
  const values = {};
  for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    const usual = /** @type {Record<string, unknown>} */ (DEFAULTS)[name];
    if (usual === undefined) continue;
    if (Array.isArray(usual)) values[name] = value.split(",").filter((head) => /^\d+-\d+$/.test(head));
    else if (typeof usual === "number") values[name] = Number.parseInt(value, 10) || 0;
    else values[name] = typeof usual === "boolean" ? value === "true" : value;
  }
  return /** @type {Partial<State>} */ (values);
}
