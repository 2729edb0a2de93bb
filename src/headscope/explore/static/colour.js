// Colours: the page's own, in either theme, and shades of the accent for weights.

// Okabe and Ito's, as in the report's figures.
const HEAD_COLOURS = { light: ["#0072B2", "#D55E00", "#009E73", "#CC79A7"], dark: ["#56B4E9", "#F0893B", "#3FCF9F", "#E59BC8"] };
export const MOST_HEADS = 4; // over each other
const RAMP = [[255, 255, 217], [199, 233, 180], [65, 182, 196], [34, 94, 168], [8, 29, 88]];

/** A colour of the page by its name in the style sheet.
 * @param {string} name */
export function pageColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** The colours of several heads, in this theme. */
export function headColours() {
  return HEAD_COLOURS[document.documentElement.dataset.theme === "dark" ? "dark" : "light"];
}

/** @param {string} hex @returns {[number, number, number]} */
export function parts(hex) {
  const number = parseInt(hex.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

/** 256 shades from one colour to another, as the numbers of an image.
 * @param {string} from @param {string} to @returns {Uint32Array} */
export function shades(from, to) {
  const [start, end] = [parts(from), parts(to)];
  const table = new Uint32Array(256);
  for (let i = 0; i < 256; i++) {
    const [r, g, b] = start.map((value, c) => Math.round(value + (end[c] - value) * i / 255));
    table[i] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  return table;
}

/** The shades of a map: as good as the page at no weight, the accent at full weight. */
export function mapShades() {
  return shades(pageColour("map-low"), pageColour("map-high"));
}

/** The colour of a measure between 0 and 1, on the scale of the report's grids.
 * @param {number} share */
export function measureColour(share) {
  const at = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1);
  const low = Math.min(Math.floor(at), RAMP.length - 2);
  const mixed = RAMP[low].map((value, c) => Math.round(value + (RAMP[low + 1][c] - value) * (at - low)));
  return `rgb(${mixed.join(" ")})`;
}

/** A colour with an opacity.
 * @param {string} hex @param {number} alpha */
export function faded(hex, alpha) {
  return `rgb(${parts(hex).join(" ")} / ${alpha})`;
}
