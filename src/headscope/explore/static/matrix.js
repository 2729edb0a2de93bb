// The map itself: a row for each token that attends, a column for each that is attended to.
import { shades } from "./colour.js";
import { fitNames } from "./lines.js";

/** @typedef {import("./types.js").Units} Units */
/** @typedef {import("./scene.js").Shape} Shape */
/** @typedef {import("./scene.js").Scene} Scene */
/** @typedef {import("./lines.js").Focus} Focus */
/** @typedef {import("./lines.js").Palette} Palette */
/** @typedef {{low: string, high: string, negative: string}} MapColours */

const MOST_PIXELS = 1024; // rows of the picture; longer texts are pooled
const FEW = 0.002; // of all cells
const LABELLED = 9; // pixels of a row that can carry a label
const LARGEST = 13, MOST_LABEL = 110; // of a label: height, and width

/** @param {string[]} names @param {number} width */
export function layMatrix(names, width) {
  const n = names.length;
  const isShort = width / n >= LABELLED; // else no label could fit, and none is measured
  const { labels, widest } = fitNames(isShort ? names : [], LARGEST, MOST_LABEL);
  const roomy = Math.max(20, widest) + 10;
  const isLabelled = isShort && (width - roomy - 24) / n >= LABELLED;
  const left = isLabelled ? roomy : 24, top = isLabelled ? roomy * 0.9 + 6 : 24;
  const side = Math.min(width - left - (isLabelled ? 24 : 2), 760, isLabelled ? n * 26 : 760);
  return { n, labels, left, top, side, cell: side / n, isLabelled, width: left + side + (isLabelled ? 24 : 2), height: top + side + 4 };
}

/** @param {Units} units @param {MapColours} colours @param {boolean} isDifference
 * @returns {HTMLCanvasElement} */
export function mapImage(units, colours, isDifference) {
  const n = units.names.length, block = Math.ceil(n / MOST_PIXELS), size = Math.ceil(n / block);
  const weights = block > 1 ? poolBlocks(units.weights, n, block, size) : units.weights;
  const { roots, full } = findRoots(weights);
  const more = shadesOf(shades(colours.low, colours.high), full);
  const less = isDifference ? shadesOf(shades(colours.low, colours.negative), full) : more;
  const canvas = document.createElement("canvas");
  canvas.dataset.full = String(full);
  canvas.width = canvas.height = size;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = context.createImageData(size, size);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; i++) pixels[i] = (isDifference && weights[i] < 0 ? less : more)[roots[i]];
  context.putImageData(image, 0, 0);
  return canvas;
}

/** The roots of weights in thousandths, and the weight from which a cell has the full colour: one
 * that few cells are above. In a long text all weights are small, and would be pale beside 1.
 * @param {Float32Array} weights */
function findRoots(weights) {
  const roots = new Uint16Array(weights.length), counts = new Uint32Array(1001);
  for (let i = 0; i < weights.length; i++) {
    const root = Math.min(1000, (1000 * Math.sqrt(Math.abs(weights[i])) + 0.5) | 0);
    roots[i] = root;
    counts[root]++;
  }
  let above = 0, root = 1000;
  while (root > 0 && (above += counts[root]) <= weights.length * FEW) root--;
  return { roots, full: Math.max(0.01, (root / 1000) ** 2) };
}

/** The shade of each root in thousandths.
 * @param {Uint32Array} table @param {number} full */
const shadesOf = (table, full) => Uint32Array.from({ length: 1001 }, (_, root) => table[Math.round(Math.min(255, 255 * root / 1000 / Math.sqrt(full)))]);

/** Sums over the keys of a block, means over its queries, as between words.
 * @param {Float32Array} weights @param {number} n @param {number} block @param {number} size */
function poolBlocks(weights, n, block, size) {
  const pooled = new Float32Array(size * size);
  for (let query = 0, i = 0; query < n; query++) {
    const row = Math.floor(query / block) * size, share = 1 / Math.min(block, n - Math.floor(query / block) * block);
    for (let key = 0; key < n; key++, i++) pooled[row + Math.floor(key / block)] += weights[i] * share;
  }
  return pooled;
}

/** @param {Units} units @param {HTMLCanvasElement} image @param {[number, number][]} marked
 * @param {number} width @param {{row: number, column: number} | null} focus
 * @param {Palette} palette @param {string} title @returns {Scene} */
export function matrixScene(units, image, marked, width, focus, palette, title) {
  const at = layMatrix(units.names, width);
  /** @type {Shape[]} */
  const shapes = [
    { kind: "image", canvas: image, x: at.left, y: at.top, width: at.side, height: at.side },
    ...frame(at.left, at.top, at.side, at.side, palette.soft, 0.5),
  ];
  for (const [from, to] of marked) {
    const inset = at.cell > 6 ? 0.5 : -1.5;
    shapes.push(...frame(at.left + to * at.cell + inset, at.top + from * at.cell + inset,
      at.cell - 2 * inset, at.cell - 2 * inset, palette.red, 1));
  }
  if (focus) {
    shapes.push(...frame(at.left, at.top + focus.row * at.cell, at.side, at.cell, palette.ink, 0.9));
    if (focus.column >= 0) shapes.push(...frame(at.left + focus.column * at.cell, at.top, at.cell, at.side, palette.ink, 0.9));
  }
  if (!at.isLabelled) {
    shapes.push({ kind: "text", x: at.left, y: at.top - 8, text: "to →", size: 11, colour: palette.soft });
    shapes.push({ kind: "text", x: at.left - 8, y: at.top + 8, text: "from →", size: 11, colour: palette.soft, turn: 90 });
    return { width: at.width, height: at.height, shapes, title };
  }
  const size = Math.min(LARGEST, Math.max(9, at.cell * 0.8));
  at.labels.forEach((text, unit) => {
    const along = (unit + 0.5) * at.cell, colour = units.special[unit] ? palette.soft : palette.ink;
    const isRow = focus?.row === unit, isColumn = focus?.column === unit;
    shapes.push({ kind: "text", x: at.left - 5, y: at.top + along + size * 0.35, text, size, bold: isRow,
      colour: isRow ? palette.accent : colour, anchor: "end" });
    shapes.push({ kind: "text", x: at.left + along + size * 0.2, y: at.top - 5, text, size, bold: isColumn,
      colour: isColumn ? palette.accent : colour, turn: -55 });
  });
  return { width: at.width, height: at.height, shapes, title };
}

/** @param {number} x @param {number} y @param {number} width @param {number} height
 * @param {string} colour @param {number} alpha @returns {Shape[]} */
function frame(x, y, width, height, colour, alpha) {
  const [right, bottom] = [x + width, y + height];
  return [{ kind: "lines", colour, alpha, width: 1,
    points: [x, y, right, y, right, y, right, bottom, right, bottom, x, bottom, x, bottom, x, y] }];
}

/** Where the cells are: left, top and size, for whoever looks from outside.
 * @param {string[]} names @param {number} width */
export function cellsOf(names, width) {
  const { left, top, cell } = layMatrix(names, width);
  return `${left} ${top} ${cell}`;
}

/** The cell under the mouse.
 * @param {string[]} names @param {number} width @param {number} x @param {number} y */
export function findCell(names, width, x, y) {
  const at = layMatrix(names, width);
  const row = Math.floor((y - at.top) / at.cell), column = Math.floor((x - at.left) / at.cell);
  return row >= 0 && row < at.n && column >= 0 && column < at.n ? { row, column } : null;
}
