// One head between the units that are shown: tokens or words, with or without special tokens.

/** @typedef {import("./types.js").Looked} Looked */
/** @typedef {import("./types.js").Units} Units */

/** Whether the words of a text are known.
 * @param {Looked} looked */
export const hasWords = (looked) => looked.wordOf.some((word) => word >= 0);

/** The tokens of each unit that is shown.
 * @param {Looked} looked @param {boolean} byWords @param {boolean} hidesSpecial */
export function groupTokens(looked, byWords, hidesSpecial) {
  /** @type {number[][]} */
  const groups = [];
  let last = -1;
  looked.tokens.forEach((_, token) => {
    const word = byWords ? looked.wordOf[token] : -1;
    if (hidesSpecial && looked.special[token]) { last = -1; return; }
    if (word >= 0 && word === last) groups[groups.length - 1].push(token);
    else groups.push([token]);
    last = word;
  });
  return groups;
}

/** The map between units: sums over the tokens attended to, means over those that attend. Where
 * special tokens are hidden, rows are made to sum to 1 again.
 * @param {Looked} looked @param {Float32Array} map
 * @param {boolean} byWords @param {boolean} hidesSpecial @returns {Units} */
export function poolUnits(looked, map, byWords, hidesSpecial) {
  const n = looked.tokens.length, tokens = groupTokens(looked, byWords, hidesSpecial);
  const names = tokens.map(([first]) =>
    byWords && looked.wordOf[first] >= 0 ? looked.words[looked.wordOf[first]] : looked.tokens[first]);
  const special = tokens.map(([first]) => looked.special[first] === 1);
  const isPlain = tokens.length === n;
  const weights = isPlain ? map : pool(map, n, tokens);
  if (hidesSpecial && !isPlain) renormalise(weights, tokens.length);
  return { names, special, weights, tokens };
}

/** @param {Float32Array} map @param {number} n @param {number[][]} tokens */
function pool(map, n, tokens) {
  const m = tokens.length;
  const unitOf = new Int32Array(n).fill(-1);
  tokens.forEach((group, unit) => { for (const token of group) unitOf[token] = unit; });
  const weights = new Float32Array(m * m);
  for (let query = 0; query < n; query++) {
    const row = unitOf[query];
    if (row < 0) continue;
    const share = 1 / tokens[row].length;
    for (let key = 0, at = query * n; key < n; key++, at++) {
      if (unitOf[key] >= 0) weights[row * m + unitOf[key]] += share * map[at];
    }
  }
  return weights;
}

/** @param {Float32Array} weights @param {number} n */
function renormalise(weights, n) {
  for (let row = 0; row < n; row++) {
    let total = 0;
    for (let key = 0; key < n; key++) total += weights[row * n + key];
    if (total > 0) for (let key = 0; key < n; key++) weights[row * n + key] /= total;
  }
}

/** The first head's weights minus the second's.
 * @param {Units} first @param {Units} second @returns {Units} */
export function difference(first, second) {
  return { ...first, weights: first.weights.map((weight, i) => weight - second.weights[i]) };
}

/** The strongest of a row or a column: [unit, weight].
 * @param {Units} units @param {number} unit @param {boolean} isRow @param {number} count
 * @returns {[number, number][]} */
export function strongest(units, unit, isRow, count) {
  const n = units.names.length;
  const found = units.names.map((_, other) => /** @type {[number, number]} */ (
    [other, units.weights[isRow ? unit * n + other : other * n + unit]]));
  return found.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, count);
}

/** The strongest weights between different units that are no special tokens: [from, to, weight].
 * @param {Units} units @param {number} count @returns {[number, number, number][]} */
export function strongestPairs(units, count) {
  const n = units.names.length;
  /** @type {[number, number, number][]} */
  const best = [];
  let least = 0.0005; // what is weaker is not worth saying
  for (let from = 0, i = 0; from < n; from++) {
    for (let to = 0; to < n; to++, i++) {
      const weight = units.weights[i];
      if (Math.abs(weight) <= least || from === to || units.special[from] || units.special[to]) continue;
      best.push([from, to, weight]);
      best.sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));
      best.length = Math.min(best.length, count);
      if (best.length === count) least = Math.abs(best[count - 1][2]);
    }
  }
  return best;
}

/** Gold pairs of units, of all relations or one; chains of coreference too.
 * @param {Looked} looked @param {number[][]} tokens @param {string} gold @param {string} way
 * @returns {[number, number][]} */
export function goldPairs(looked, tokens, gold, way) {
  if (!gold) return [];
  const unitOfWord = new Map();
  tokens.forEach((group, unit) => {
    for (const token of group) {
      const word = looked.wordOf[token];
      if (word >= 0 && !unitOfWord.has(word)) unitOfWord.set(word, unit);
    }
  });
  const wanted = gold === "coreference" ? looked.chains
    : looked.arcs.filter(([, , relation]) => gold === "all relations" || relation === gold);
  /** @type {[number, number][]} */
  const pairs = [];
  for (const [from, to] of wanted) {
    const pair = [unitOfWord.get(from), unitOfWord.get(to)];
    if (pair.includes(undefined)) continue;
    pairs.push(/** @type {[number, number]} */ (way === "up" ? pair : pair.reverse()));
  }
  return pairs;
}
