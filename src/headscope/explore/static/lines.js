// The paper's drawing: tokens left and right, a line for each weight, the darker the stronger.
import { FONT } from "./scene.js";

/** @typedef {import("./types.js").Units} Units */
/** @typedef {import("./scene.js").Shape} Shape */
/** @typedef {import("./scene.js").Scene} Scene */
/** @typedef {{units: Units, colour: string, negative?: string}} Layer  a head in its colour */
/** @typedef {{ink: string, soft: string, accent: string, red: string}} Palette */
/** @typedef {{unit: number, isFrom: boolean} | null} Focus  a unit that is looked at */

const FAINT = 0.005; // a line below it could not be seen
const OVERLOOKED = 0.1; // a gold pair with less weight gets a dotted line
const SHADES = 50; // lines of one shade are one path
const TOP = 30, PAD = 8, LONGEST = 24;

const ruler = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));

/** Names as they are drawn, none wider than there is room, and the width of the widest.
 * @param {string[]} names @param {number} size @param {number} room */
export function fitNames(names, size, room) {
  ruler.font = `600 ${size}px ${FONT}`;
  let widest = 0;
  const labels = names.map((name) => {
    let label = name, width = ruler.measureText(label).width;
    for (let end = Math.min(name.length, LONGEST) - 1; end > 0 && (width > room || label.length > LONGEST); end--) {
      label = `${name.slice(0, end)}…`;
      width = ruler.measureText(label).width;
    }
    widest = Math.max(widest, width);
    return label;
  });
  return { labels, widest };
}

/** Where things are: columns of tokens, and the rows.
 * @param {string[]} names @param {number} width */
export function layLines(names, width) {
  const n = names.length;
  const row = Math.max(11, Math.min(24, 24 - (n - 20) * 0.18));
  const size = Math.min(14.5, row * 0.68);
  const { labels, widest } = fitNames(names, size, width * 0.36 - 2 * PAD);
  const column = Math.max(30, widest) + 2 * PAD;
  const across = Math.min(width, 2 * column + Math.max(160, Math.min(420, row * n * 0.6)));
  return { row, size, labels, column, left: column, right: across - column, width: across, height: TOP + row * n + 6 };
}

/** @typedef {ReturnType<typeof layLines>} Layout */

/** @param {Layer[]} layers one, or several over each other
 * @param {[number, number][]} marked gold pairs @param {number} width @param {Focus} focus
 * @param {Palette} palette @param {string} title @returns {Scene} */
export function linesScene(layers, marked, width, focus, palette, title) {
  const { units } = layers[0];
  const at = layLines(units.names, width);
  /** @type {Shape[]} */
  const shapes = [
    { kind: "text", x: at.left - PAD, y: TOP - 12, text: "from", size: 11, colour: palette.soft, anchor: "end" },
    { kind: "text", x: at.right + PAD, y: TOP - 12, text: "to", size: 11, colour: palette.soft },
  ];
  if (focus) shapes.push(...glow(layers[0], at, focus, palette));
  const isMarked = new Set(marked.map(([from, to]) => from * units.names.length + to));
  for (const layer of layers) shapes.push(...draw(layer, at, focus, isMarked, palette));
  shapes.push(...guides(units, marked, at, focus, palette));
  at.labels.forEach((text, unit) => {
    for (const isFrom of [true, false]) {
      const isFocus = focus?.unit === unit && focus.isFrom === isFrom;
      shapes.push({
        kind: "text", text, size: at.size, bold: isFocus,
        x: isFrom ? at.left - PAD : at.right + PAD, anchor: isFrom ? "end" : "start",
        y: TOP + at.row * (unit + 0.5) + at.size * 0.35,
        colour: isFocus ? palette.accent : units.special[unit] ? palette.soft : palette.ink,
      });
    }
  });
  return { width: at.width, height: at.height, shapes, title };
}

/** The other tokens on a ground as strong as their weight.
 * @param {Layer} layer @param {Layout} at @param {{unit: number, isFrom: boolean}} focus
 * @param {Palette} palette @returns {Shape[]} */
function glow({ units, colour }, at, focus, palette) {
  const n = units.names.length;
  return units.names.flatMap((_, other) => {
    const weight = Math.abs(units.weights[focus.isFrom ? focus.unit * n + other : other * n + focus.unit]);
    return weight < 0.01 ? [] : [/** @type {Shape} */ ({
      kind: "rect", x: focus.isFrom ? at.right + 2 : 0, width: at.column - 4,
      y: TOP + at.row * other, height: at.row - 1, colour: colour === palette.ink ? palette.accent : colour,
      alpha: 0.06 + 0.3 * Math.min(weight, 1),
    })];
  });
}

/** @param {Layer} layer @param {Layout} at @param {Focus} focus @param {Set<number>} isMarked
 * @param {Palette} palette @returns {Shape[]} */
function draw({ units, colour, negative }, at, focus, isMarked, palette) {
  const n = units.names.length;
  /** @type {Map<string, number[]>} */
  const shades = new Map();
  const scale = Math.min(1, at.row / 18);
  for (let from = 0; from < n; from++) {
    if (focus?.isFrom && focus.unit !== from) continue;
    for (let to = 0; to < n; to++) {
      if (focus && !focus.isFrom && focus.unit !== to) continue;
      const weight = units.weights[from * n + to], size = Math.abs(weight);
      if (size < FAINT) continue;
      const line = isMarked.has(from * n + to) ? palette.red : weight < 0 && negative ? negative : colour;
      const key = `${line} ${Math.round(Math.min(size, 1) * SHADES)}`;
      let points = shades.get(key);
      if (!points) shades.set(key, points = []);
      points.push(at.left, middle(at, from), at.right, middle(at, to));
    }
  }
  const order = [...shades].map(([key, points]) => ({ key: key.split(" "), points }));
  order.sort((a, b) => Number(a.key[0] === palette.red) - Number(b.key[0] === palette.red)
    || Number(a.key[1]) - Number(b.key[1]));
  return order.map(({ key, points }) => {
    const share = Number(key[1]) / SHADES;
    return { kind: "lines", points, colour: key[0], alpha: Math.max(0.02, share), width: scale * (0.9 + 1.6 * share) };
  });
}

/** Dotted lines for gold pairs that the head overlooks.
 * @param {Units} units @param {[number, number][]} marked @param {Layout} at @param {Focus} focus
 * @param {Palette} palette @returns {Shape[]} */
function guides(units, marked, at, focus, palette) {
  const n = units.names.length;
  const missed = marked.filter(([from, to]) => units.weights[from * n + to] < OVERLOOKED
    && (!focus || (focus.isFrom ? from : to) === focus.unit));
  if (!missed.length) return [];
  const points = missed.flatMap(([from, to]) => [at.left, middle(at, from), at.right, middle(at, to)]);
  return [{ kind: "lines", points, colour: palette.red, alpha: 0.7, width: 0.9, dash: [1.5, 3] }];
}

/** @param {Layout} at @param {number} unit */
const middle = (at, unit) => TOP + at.row * (unit + 0.5);

/** The unit under the mouse, on which side.
 * @param {string[]} names @param {number} width @param {number} x @param {number} y @returns {Focus} */
export function findUnit(names, width, x, y) {
  const at = layLines(names, width);
  const unit = Math.floor((y - TOP) / at.row);
  if (unit < 0 || unit >= names.length || (x > at.left + 14 && x < at.right - 14)) return null;
  return { unit, isFrom: x <= at.left + 14 };
}
