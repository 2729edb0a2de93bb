// All heads at once: layers down, heads across, each a small map; or sorted by a measure.
import { byId, make, sharpen } from "./dom.js";
import { faded, mapShades, measureColour, pageColour } from "./colour.js";
import { headsOf, state, update } from "./state.js";
import { headNames, isFound, measureOf, placeOf, range, sayMeasure } from "./measures.js";

/** @typedef {import("./types.js").Boot} Boot */
/** @typedef {import("./types.js").Shown} Shown */

const AXIS = 26, GAP = 3, SMALLEST = 9, COMFORTABLE = 26, LARGEST = 78, MOST_HEIGHT = 900;
const REST = 80; // milliseconds

/** The grid on its two canvases: the maps, and what moves over them. `expect` is told on which head
 * the mouse rests, so that its map is there when it is clicked.
 * @param {Boot} boot @param {(head: string, isAdded: boolean) => void} choose
 * @param {(head: string, shown: Shown) => void} expect */
export function makeGrid(boot, choose, expect) {
  const base = byId("grid-maps"), over = byId("grid-over"), tip = byId("tip"), said = byId("grid-said");
  /** @type {Shown | null} */
  let shown = null;
  /** @type {HTMLCanvasElement | null} */
  let atlas = null;
  /** @type {{cell: number, bar: number, columns: number, cells: {head: string, x: number, y: number, isFaint: boolean}[],
   *   width: number, height: number, isSorted: boolean, label: number}} */
  let at = { cell: 0, bar: 0, columns: 0, cells: [], width: 0, height: 0, isSorted: false, label: 0 };
  let cursor = -1, resting = 0;

  /** @param {Shown | null} next */
  function show(next) {
    if (next !== shown) atlas = next ? paintAtlas(next) : null;
    shown = next;
    draw();
  }

  /** All small maps side by side in one picture.
   * @param {Shown} from */
  function paintAtlas(from) {
    const { layers, heads } = boot.models[from.pane.model], size = from.looked.thumbSize;
    const canvas = document.createElement("canvas");
    canvas.width = heads * size;
    canvas.height = layers.length * size;
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const image = context.createImageData(canvas.width, canvas.height);
    const pixels = new Uint32Array(image.data.buffer), table = mapShades(), area = size * size;
    for (let number = 0; number < layers.length * heads; number++) {
      const left = (number % heads) * size, top = Math.floor(number / heads) * size;
      for (let i = 0; i < area; i++) {
        pixels[(top + Math.floor(i / size)) * canvas.width + left + i % size] = table[from.thumbs[number * area + i]];
      }
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }

  function lay() {
    if (!shown) return;
    const model = boot.models[shown.pane.model], { layers, heads } = model;
    const measure = measureOf(boot, state.measure), bar = measure ? 5 : 0;
    const room = base.parentElement.clientWidth;
    const isSorted = state.sort !== "layer" && Boolean(measure);
    const label = isSorted ? 14 : 0;
    const tallest = Math.max(COMFORTABLE, Math.floor(MOST_HEIGHT / layers.length) - GAP); // many layers: smaller
    const fitting = Math.min(Math.floor((room - AXIS) / heads) - GAP, tallest);
    const cell = Math.max(SMALLEST, Math.min(LARGEST, isSorted ? 58 : fitting));
    const columns = isSorted ? Math.max(1, Math.floor((room - AXIS) / (cell + GAP + 6))) : heads;
    const names = headNames(model);
    let order = names;
    if (isSorted && measure) {
      const value = (/** @type {string} */ head) => measure.byHead.get(head)?.value ?? -Infinity;
      order = names.filter((head) => isFound(boot, head)).sort((a, b) => value(b) - value(a));
      if (state.sort === "low") order.reverse();
    }
    const wide = cell + GAP + (isSorted ? 6 : 0), high = cell + GAP + bar + label + (isSorted ? 4 : 0);
    const cells = order.map((head, i) => ({
      head, isFaint: !isSorted && !isFound(boot, head),
      x: AXIS + (i % columns) * wide, y: (isSorted ? 4 : 18) + Math.floor(i / columns) * high,
    }));
    over.dataset.cells = `${AXIS} ${isSorted ? 4 : 18} ${wide} ${high}`; // for whoever looks from outside
    at = { cell, bar, columns, cells, isSorted, label, width: AXIS + columns * wide,
      height: (isSorted ? 4 : 18) + Math.ceil(order.length / columns) * high + 4 };
  }

  function draw() {
    lay();
    if (!shown || !atlas) return;
    const context = sharpen(base, at.width, at.height);
    const model = boot.models[shown.pane.model], { heads } = model, size = shown.looked.thumbSize;
    const measure = measureOf(boot, state.measure), soft = pageColour("soft"), line = pageColour("line");
    const span = measure ? range(measure) : null;
    context.imageSmoothingQuality = "high";
    context.imageSmoothingEnabled = at.cell * window.devicePixelRatio < size;
    context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    for (const { head, x, y, isFaint } of at.cells) {
      const [layer, number] = placeOf(model, head);
      context.globalAlpha = isFaint ? 0.14 : 1;
      context.drawImage(atlas, number * size, layer * size, size, size, x, y, at.cell, at.cell);
      context.strokeStyle = line;
      context.lineWidth = 1;
      if (at.cell > 20) context.strokeRect(x + 0.5, y + 0.5, at.cell - 1, at.cell - 1);
      const own = measure?.byHead.get(head);
      if (span && own) {
        const share = (own.value - span[0]) / (span[1] - span[0] || 1);
        context.fillStyle = line;
        context.fillRect(x, y + at.cell + 1, at.cell, at.bar - 1);
        context.fillStyle = measureColour(0.25 + 0.75 * share);
        context.fillRect(x, y + at.cell + 1, Math.max(1, at.cell * share), at.bar - 1);
      }
      if (at.isSorted) {
        context.fillStyle = soft;
        context.textAlign = "left";
        context.fillText(head, x, y + at.cell + at.bar + 11);
      }
    }
    context.globalAlpha = 1;
    if (!at.isSorted) drawAxes(context, soft, heads);
    drawOver();
  }

  /** @param {CanvasRenderingContext2D} context @param {string} soft @param {number} heads */
  function drawAxes(context, soft, heads) {
    context.fillStyle = soft;
    const every = Math.ceil(18 / (at.cell + GAP));
    at.cells.forEach(({ head, x, y }, i) => {
      const [layer, number] = head.split("-").map(Number);
      context.textAlign = "center";
      if (i < heads && (number - 1) % every === 0) context.fillText(String(number), x + at.cell / 2, 12);
      context.textAlign = "right";
      if (i % heads === 0 && (i / heads) % every === 0) context.fillText(String(layer), AXIS - 7, y + at.cell / 2 + 4);
    });
  }

  function drawOver() {
    const context = sharpen(over, at.width, at.height);
    const accent = pageColour("accent"), bad = pageColour("bad"), chosen = headsOf(state.side);
    at.cells.forEach(({ head, x, y }, i) => {
      if (state.off.includes(head)) {
        context.strokeStyle = bad;
        context.lineWidth = Math.max(1.5, at.cell / 18);
        context.beginPath();
        context.moveTo(x + 2, y + 2); context.lineTo(x + at.cell - 2, y + at.cell - 2);
        context.moveTo(x + at.cell - 2, y + 2); context.lineTo(x + 2, y + at.cell - 2);
        context.stroke();
      }
      if (chosen.includes(head) || i === cursor) {
        context.strokeStyle = chosen.includes(head) ? accent : faded(accent, 0.6);
        context.lineWidth = chosen.includes(head) ? Math.max(2, at.cell / 24) : 2;
        context.strokeRect(x - 1, y - 1, at.cell + 2, at.cell + 2);
      }
    });
  }

  /** @param {number} index @param {boolean} withTip */
  function point(index, withTip) {
    if (index === cursor && withTip === !tip.hidden) return;
    cursor = index;
    drawOver();
    tip.hidden = true;
    if (index < 0 || !shown || !atlas) return;
    const { head, x, y } = at.cells[index];
    const summary = boot.run?.cards[head]?.summary ?? "";
    const measured = sayMeasure(boot, state.measure, head);
    said.textContent = [`Head ${head}`, summary, measured].filter(Boolean).join(". ");
    if (withTip) showTip(head, x, y, summary, measured);
    clearTimeout(resting);
    const own = shown;
    resting = window.setTimeout(() => expect(head, own), REST);
  }

  /** The head enlarged, beside the mouse.
   * @param {string} head @param {number} x @param {number} y @param {string} summary @param {string} measured */
  function showTip(head, x, y, summary, measured) {
    if (!shown || !atlas) return;
    const [layer, number] = placeOf(boot.models[shown.pane.model], head), size = shown.looked.thumbSize;
    const canvas = make("canvas", { "aria-hidden": "true" });
    const context = sharpen(canvas, 190, 190);
    context.imageSmoothingEnabled = false;
    context.drawImage(atlas, number * size, layer * size, size, size, 0, 0, 190, 190);
    tip.replaceChildren(canvas, make("strong", {}, `Head ${head}`), ...(summary ? [make("span", {}, summary)] : []),
      ...(measured ? [make("span", { class: "soft" }, measured)] : []));
    tip.hidden = false;
    const place = over.getBoundingClientRect(), box = tip.getBoundingClientRect();
    const right = place.left + x + at.cell + 12;
    const left = right + box.width < window.innerWidth - 8 ? right : place.left + x - box.width - 12;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${Math.max(8, Math.min(place.top + y, window.innerHeight - box.height - 8))}px`;
  }

  /** @param {MouseEvent} event */
  function find(event) {
    const place = over.getBoundingClientRect();
    const [x, y] = [event.clientX - place.left, event.clientY - place.top];
    return at.cells.findIndex((cell) => x >= cell.x - 1 && x <= cell.x + at.cell + 2
      && y >= cell.y - 1 && y <= cell.y + at.cell + at.bar + at.label + 2);
  }

  over.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => point(find(event), event.pointerType === "mouse"));
  over.addEventListener("pointerleave", () => point(-1, false));
  over.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const index = find(event);
    if (index >= 0) choose(at.cells[index].head, event.shiftKey || event.ctrlKey || event.metaKey);
  });
  over.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const steps = /** @type {Record<string, number>} */ ({ ArrowLeft: -1, ArrowRight: 1, ArrowUp: -at.columns, ArrowDown: at.columns });
    if (event.key in steps) {
      const from = cursor >= 0 ? cursor : Math.max(0, at.cells.findIndex(({ head }) => head === headsOf(state.side)[0]));
      const next = cursor >= 0 ? from + steps[event.key] : from;
      if (next >= 0 && next < at.cells.length) point(next, false);
    } else if ((event.key === "Enter" || event.key === " ") && cursor >= 0) {
      choose(at.cells[cursor].head, event.shiftKey || event.key === " ");
    } else if (event.key === "Escape") point(-1, false);
    else return;
    event.preventDefault();
  });
  over.addEventListener("blur", () => point(-1, false));

  return { show, draw, drawOver, repaint: () => { atlas = shown ? paintAtlas(shown) : null; draw(); } };
}

/** What stands above the grid: which measure colours it, the order, the filter.
 * @param {Boot} boot */
export function wireGridTools(boot) {
  const filter = byId("filter");
  filter.addEventListener("input", () => update({ filter: filter.value, brushed: [] }));
  byId("measure").addEventListener("change", (/** @type {any} */ event) => update({
    measure: event.target.value, sort: event.target.value ? state.sort : "layer" }));
  byId("sort").addEventListener("change", (/** @type {any} */ event) => update({ sort: event.target.value }));
}
