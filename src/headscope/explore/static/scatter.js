// Every head as a dot over two measures, a third as its colour; dragging selects heads.
import { byId, make, sharpen } from "./dom.js";
import { faded, measureColour, pageColour } from "./colour.js";
import { state, update } from "./state.js";
import { fillMeasures, fullName, isFound, measureOf, range, sayMeasure, sayValue } from "./measures.js";

/** @typedef {import("./types.js").Boot} Boot */

const LEFT = 70, BOTTOM = 44, TOP = 12, RIGHT = 16, NEAR = 14;

/** @param {Boot} boot @param {(head: string, isAdded: boolean) => void} choose */
export function makeScatter(boot, choose) {
  const canvas = byId("scatter"), tip = byId("tip"), said = byId("scatter-said");
  /** @type {{head: string, x: number, y: number, colour: string}[]} */
  let dots = [];
  let cursor = -1;
  /** @type {{x: number, y: number, toX: number, toY: number} | null} */
  let brush = null;
  const selects = /** @type {[string, "x" | "y" | "c"][]} */ ([["scatter-x", "x"], ["scatter-y", "y"], ["scatter-c", "c"]]);
  /** @type {Map<string, string>} */
  let kinds = new Map();
  for (const [id, name] of selects) byId(id).addEventListener("change", () => update({ [name]: byId(id).value, brushed: [] }));

  /** Take the measures of the model that is shown. */
  function fill() {
    for (const [id, name] of selects) fillMeasures(boot, byId(id), name === "c" ? "what the head does" : "");
    kinds = new Map((boot.run?.kinds ?? []).map(({ name, colour }) => [name, colour]));
  }

  function axes() {
    const measures = boot.run?.measures ?? [], first = measures[0];
    const other = measures.find(({ group, isShare }) => group !== first?.group && !isShare) ?? measures[measures.length - 1];
    return { x: measureOf(boot, state.x || (first ? fullName(first) : "")), y: measureOf(boot, state.y || (other ? fullName(other) : "")) };
  }

  function draw() {
    const { x, y } = axes();
    if (!x || !y || byId("scatter-part").hidden) return;
    byId("scatter-x").value = x.name;
    byId("scatter-y").value = y.name;
    byId("scatter-c").value = state.c;
    const width = Math.min(canvas.parentElement.clientWidth, 760), height = Math.min(520, Math.max(300, width * 0.72));
    const context = sharpen(canvas, width, height);
    const [across, up] = [scaleOf(range(x), LEFT, width - RIGHT), scaleOf(range(y), height - BOTTOM, TOP)];
    drawAxes(context, x, y, across, up, width, height);
    const third = measureOf(boot, state.c), span = third ? range(third) : null;
    dots = [];
    for (const [head, { value }] of x.byHead) {
      const other = y.byHead.get(head);
      if (!other) continue;
      const own = third?.byHead.get(head)?.value;
      const colour = span && own !== undefined ? measureColour(0.15 + 0.85 * (own - span[0]) / (span[1] - span[0] || 1))
        : kinds.get(boot.run?.cards[head]?.kind ?? "") ?? pageColour("soft");
      dots.push({ head, x: across(value), y: up(other.value), colour });
    }
    drawDots(context, x, y, across, up);
    byId("kinds").hidden = Boolean(third);
  }

  /** @param {CanvasRenderingContext2D} context @param {any} x @param {any} y
   * @param {(value: number) => number} across @param {(value: number) => number} up */
  function drawDots(context, x, y, across, up) {
    const ink = pageColour("ink"), accent = pageColour("accent");
    dots.forEach(({ head, x: left, y: top, colour }, i) => {
      const isChosen = state.heads.includes(head);
      context.globalAlpha = isFound(boot, head) ? 1 : 0.15;
      context.beginPath();
      context.arc(left, top, isChosen || i === cursor ? 7 : 5, 0, 2 * Math.PI);
      context.fillStyle = colour;
      context.fill();
      context.lineWidth = isChosen ? 2.5 : 0.6;
      context.strokeStyle = isChosen ? accent : ink;
      context.stroke();
    });
    context.globalAlpha = 1;
    const own = dots[cursor];
    if (own) {
      context.strokeStyle = ink;
      context.lineWidth = 1.5;
      const [h, v] = [x.byHead.get(own.head), y.byHead.get(own.head)];
      context.beginPath();
      if (h.low !== null) { context.moveTo(across(h.low), own.y); context.lineTo(across(h.high), own.y); }
      if (v.low !== null) { context.moveTo(own.x, up(v.low)); context.lineTo(own.x, up(v.high)); }
      context.stroke();
    }
    if (brush) {
      context.fillStyle = faded(accent, 0.15);
      context.fillRect(brush.x, brush.y, brush.toX - brush.x, brush.toY - brush.y);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {any} x @param {any} y
   * @param {(value: number) => number} across @param {(value: number) => number} up
   * @param {number} width @param {number} height */
  function drawAxes(context, x, y, across, up, width, height) {
    context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    context.fillStyle = pageColour("soft");
    context.strokeStyle = pageColour("line");
    context.beginPath();
    for (const value of ticks(range(x))) {
      context.moveTo(across(value), TOP); context.lineTo(across(value), height - BOTTOM);
      context.textAlign = "center";
      context.fillText(sayValue(x, value), across(value), height - BOTTOM + 16);
    }
    for (const value of ticks(range(y))) {
      context.moveTo(LEFT, up(value)); context.lineTo(width - RIGHT, up(value));
      context.textAlign = "right";
      context.fillText(sayValue(y, value), LEFT - 6, up(value) + 4);
    }
    context.stroke();
    context.fillStyle = pageColour("ink");
    context.textAlign = "center";
    context.fillText(x.name, (LEFT + width - RIGHT) / 2, height - 6);
    context.save();
    context.translate(11, (TOP + height - BOTTOM) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(y.name, 0, 0);
    context.restore();
  }

  /** @param {number} index @param {boolean} withTip */
  function point(index, withTip) {
    if (index === cursor) return;
    cursor = index;
    draw();
    tip.hidden = true;
    const own = dots[index];
    if (!own) return;
    const { x, y } = axes();
    const summary = boot.run?.cards[own.head]?.summary ?? "";
    const lines = [sayMeasure(boot, x?.name ?? "", own.head), sayMeasure(boot, y?.name ?? "", own.head), sayMeasure(boot, state.c, own.head)];
    said.textContent = [`Head ${own.head}`, summary, ...lines].filter(Boolean).join(". ");
    if (!withTip) return;
    tip.replaceChildren(make("strong", {}, `Head ${own.head}`), make("span", {}, summary),
      ...lines.filter(Boolean).map((line) => make("span", { class: "soft" }, line)));
    tip.hidden = false;
    const place = canvas.getBoundingClientRect(), box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(place.left + own.x + 14, window.innerWidth - box.width - 8))}px`;
    tip.style.top = `${Math.max(8, Math.min(place.top + own.y + 14, window.innerHeight - box.height - 8))}px`;
  }

  /** @param {MouseEvent} event */
  function spot(event) {
    const place = canvas.getBoundingClientRect();
    return { x: event.clientX - place.left, y: event.clientY - place.top };
  }

  /** @param {{x: number, y: number}} at */
  function nearest(at) {
    let best = -1, least = NEAR;
    dots.forEach((dot, i) => {
      const apart = Math.hypot(dot.x - at.x, dot.y - at.y);
      if (apart < least) [best, least] = [i, apart];
    });
    return best;
  }

  canvas.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
    const at = spot(event);
    brush = { ...at, toX: at.x, toY: at.y };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const at = spot(event);
    if (!brush) { point(nearest(at), true); return; }
    [brush.toX, brush.toY] = [at.x, at.y];
    draw();
  });
  canvas.addEventListener("pointerup", (/** @type {PointerEvent} */ event) => {
    const drawn = brush;
    brush = null;
    if (!drawn) return;
    const [low, high] = [Math.min(drawn.x, drawn.toX), Math.max(drawn.x, drawn.toX)];
    const [top, end] = [Math.min(drawn.y, drawn.toY), Math.max(drawn.y, drawn.toY)];
    if (high - low < 5 && end - top < 5) {
      const index = nearest(spot(event));
      if (index >= 0) choose(dots[index].head, event.shiftKey);
      else update({ brushed: [] });
    } else {
      const inside = dots.filter((dot) => dot.x >= low && dot.x <= high && dot.y >= top && dot.y <= end);
      update({ brushed: inside.map(({ head }) => head) });
    }
    draw();
  });
  canvas.addEventListener("pointerleave", () => point(-1, false));
  canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const steps = /** @type {Record<string, [number, number]>} */ ({ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] });
    if (event.key in steps) point(neighbour(dots, cursor, steps[event.key]), false);
    else if (event.key === "Enter" && dots[cursor]) choose(dots[cursor].head, event.shiftKey);
    else return;
    event.preventDefault();
  });
  return { draw, fill };
}

/** The next dot in a direction.
 * @param {{x: number, y: number}[]} dots @param {number} from @param {[number, number]} step */
function neighbour(dots, from, [right, down]) {
  if (from < 0) return 0;
  let best = from, least = Infinity;
  dots.forEach((dot, i) => {
    const ahead = (dot.x - dots[from].x) * right + (dot.y - dots[from].y) * down;
    const aside = Math.abs(dot.x - dots[from].x) * Math.abs(down) + Math.abs(dot.y - dots[from].y) * Math.abs(right);
    if (i !== from && ahead > 0 && ahead + 2 * aside < least) [best, least] = [i, ahead + 2 * aside];
  });
  return best;
}

/** @param {[number, number]} span @param {number} from @param {number} to */
function scaleOf([least, most], from, to) {
  return (/** @type {number} */ value) => from + (to - from) * (value - least) / (most - least || 1);
}

/** Round numbers within a range.
 * @param {[number, number]} span */
export function ticks([least, most]) {
  const rough = (most - least) / 5 || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? rough;
  const found = [];
  for (let value = Math.ceil(least / step) * step; value <= most + step / 1e6; value += step) found.push(value);
  return found;
}
