// One head, or several, over the text: lines or the matrix, with what a token attends to in words.
import { byId, checkbox, keepFocus, make, segments, sharpen } from "./dom.js";
import { MOST_HEADS, headColours, pageColour } from "./colour.js";
import { findUnit, linesScene } from "./lines.js";
import { cellsOf, findCell, mapImage, matrixScene } from "./matrix.js";
import { hasHead, sayHeads } from "./measures.js";
import { paint } from "./scene.js";
import { headsOf, state, update } from "./state.js";
import { difference, goldPairs, hasWords, poolUnits, strongest, strongestPairs } from "./units.js";

/** @typedef {import("./types.js").Boot} Boot */
/** @typedef {import("./types.js").Shown} Shown */
/** @typedef {import("./types.js").Units} Units */
/** @typedef {import("./scene.js").Scene} Scene */
/** @typedef {{draw: () => void, scene: () => Scene | null, units: () => Units[], shown: Shown, heads: string[]}} Drawing */

const MOST_LINES = 64; // units that are drawn as lines unless asked for; more are a matrix
const LINES_LIMIT = 600;

/** @returns {import("./lines.js").Palette} */
function palette() {
  return { ink: pageColour("ink"), soft: pageColour("soft"), accent: pageColour("accent"), red: pageColour("gold") };
}

/** @param {number} weight */
export const sayWeight = (weight) => `${(100 * weight).toFixed(Math.abs(weight) >= 0.1 ? 0 : 1)} %`;

/** @param {Boot} boot @param {import("./source.js").Source} source */
export function makeHead(boot, source) {
  const place = byId("drawings"), tools = byId("head-tools");
  /** @type {Drawing[]} */
  let drawings = [];
  let turn = 0;
  /** @type {import("./types.js").Looked | null} */
  let toolsOf = null;
  let toolsFor = "";

  /** Draw the chosen heads over the texts that are shown. Figures and canvases are used again.
   * @param {Shown[]} shown */
  async function show(shown) {
    const mine = ++turn;
    drawTools(shown);
    byId("head-title").textContent = [...new Set(shown.map((_, side) => titleOf(side)))].join(" and ");
    const found = await Promise.allSettled(shown.map(({ pane }, side) => findMaps(pane, side)));
    if (mine !== turn) return;
    drawings = [];
    found.forEach((one, i) => {
      const figure = place.children[i] ?? place.appendChild(make("figure", { class: "drawing" }));
      if (one.status === "fulfilled") drawings.push(drawPane(shown[i], i, one.value, figure, shown.length > 1));
      else figure.replaceChildren(make("p", { class: "problem" }, one.reason.message));
    });
    while (place.children.length > shown.length) place.lastElementChild.remove();
    place.classList.toggle("pair", shown.length > 1);
    for (const drawing of drawings) drawing.draw();
  }

  /** @param {number} side */
  function titleOf(side) {
    const names = headsOf(side);
    if (names.length < 2 || state.mode === "one") return `Head ${names[0]}`;
    return state.mode === "difference" && names.length === 2 ? `Head ${names[0]} minus ${names[1]}` : `Heads ${names.join(", ")}`;
  }

  /** The heads that are drawn over each other.
   * @param {number} side */
  const drawnHeads = (side) => headsOf(side).slice(0, state.mode === "one" ? 1 : MOST_HEADS);

  /** @param {import("./types.js").Pane} pane @param {number} side @returns {Promise<Float32Array[]>} */
  async function findMaps(pane, side) {
    const model = boot.models[pane.model], heads = drawnHeads(side);
    for (const head of heads) if (!hasHead(model, head)) throw new Error(`${model.name} has no head ${head}: it has ${sayHeads(model)}.`);
    return Promise.all(heads.map((head) => source.map(pane, state.weights, head)));
  }

  /** @param {Shown} one @param {number} side @param {Float32Array[]} maps @param {HTMLElement} figure
   * @param {boolean} isPair @returns {Drawing} */
  function drawPane(one, side, maps, figure, isPair) {
    const { looked } = one, byWords = state.words && hasWords(looked);
    const units = maps.map((map) => poolUnits(looked, map, byWords, state.hide));
    const isDifference = state.mode === "difference" && units.length === 2;
    const shownUnits = isDifference ? [difference(units[0], units[1])] : units;
    const n = shownUnits[0].names.length;
    const isLines = state.view === "lines" && n <= LINES_LIMIT || state.view === "auto" && n <= MOST_LINES;
    const canvas = figure.querySelector("canvas") ?? make("canvas", { tabindex: "0", role: "img", class: "attention" });
    const row = figure.querySelector(".row-list") ?? make("div", { class: "row-list", "aria-live": "polite" });
    if (isPair || figure.children.length !== 2) {
      const caption = make("figcaption", {}, make("strong", {}, `${boot.models[one.pane.model].name} ${drawnHeads(side).join(", ")}`), " ", make("span", { class: "soft" }, excerpt(looked)));
      figure.replaceChildren(...(isPair ? [caption] : []), canvas.parentElement ?? make("div", { class: "scroll" }, canvas), row);
    }
    return wire(one, side, shownUnits, drawnHeads(side), isLines, isDifference, /** @type {HTMLCanvasElement} */ (canvas), /** @type {HTMLElement} */ (row));
  }

  /** @param {Shown} one @param {number} side @param {Units[]} units @param {string[]} heads @param {boolean} isLines
   * @param {boolean} isDifference @param {HTMLCanvasElement} canvas @param {HTMLElement} row @returns {Drawing} */
  function wire(one, side, units, heads, isLines, isDifference, canvas, row) {
    const marked = goldPairs(one.looked, units[0].tokens, state.gold, state.way);
    /** @type {Scene | null} */
    let scene = null;
    /** @type {HTMLCanvasElement | null} */
    let image = null;
    /** @type {{unit: number, isFrom: boolean} | null} */
    let hovered = null;
    let column = -1;
    const pinned = () => {
      const unit = units[0].tokens.findIndex((tokens) => tokens.includes(state.token));
      return unit >= 0 ? { unit, isFrom: true } : null;
    };
    const room = () => /** @type {HTMLElement} */ (canvas.parentElement).clientWidth;

    function draw() {
      const focus = hovered ?? pinned(), colours = palette();
      const title = `${boot.models[one.pane.model].name}, ${titleOf(side).toLowerCase()}`;
      if (isLines) {
        const layers = units.map((own, i) => ({
          units: own, colour: isDifference || units.length > 1 ? headColours()[i] : colours.ink, negative: isDifference ? headColours()[1] : undefined,
        }));
        scene = linesScene(layers, marked, Math.min(room(), 720), focus, colours, title);
      } else {
        image ??= mapImage(units[0], { low: pageColour("map-low"), high: pageColour("map-high"), negative: headColours()[1] }, isDifference);
        scene = matrixScene(units[0], image, marked, Math.min(room(), 820), focus ? { row: focus.unit, column } : null, colours, title);
      }
      paint(sharpen(canvas, scene.width, scene.height), scene.shapes);
      if (isLines) delete canvas.dataset.cells;
      else canvas.dataset.cells = cellsOf(units[0].names, Math.min(room(), 820));
      canvas.dataset.heads = heads.join(",");
      canvas.setAttribute("aria-label", `${title}. Arrow keys go through the tokens.`);
      describeRow(focus);
    }

    /** @param {{unit: number, isFrom: boolean} | null} focus */
    function describeRow(focus) {
      if (!focus) {
        const parts = units.map((own, i) => make("div", { class: "bars" },
          make("strong", {}, `${units.length > 1 ? `${heads[i]}: s` : "S"}trongest between words`),
          ...strongestPairs(own, 5).map(([from, to, weight]) => bar(`${own.names[from]} → ${own.names[to]}`, weight))));
        row.replaceChildren(...parts, make("span", { class: "soft" }, "Hover a token to see what it attends to; click to keep it. "
          + (isLines ? "" : `Full colour: ${sayWeight(Number(image?.dataset.full ?? 1))} and more. `)
          + (isLines || units.length < 2 ? "" : "The matrix shows the first head.")));
        return;
      }
      const name = units[0].names[focus.unit];
      const parts = units.map((own, i) => make("div", { class: "bars" },
        make("strong", {}, `${units.length > 1 ? `${heads[i]}: ` : ""}${focus.isFrom ? "" : "to "}${name}${focus.isFrom ? " attends to" : " is attended by"}`),
        ...strongest(own, focus.unit, focus.isFrom, 6).filter(([, weight]) => Math.abs(weight) >= 0.0005).map(([other, weight]) => bar(own.names[other], weight))));
      if (!isLines && column >= 0) {
        const weight = units[0].weights[focus.unit * units[0].names.length + column];
        parts.unshift(make("div", { class: "cell-said" }, `${name} → ${units[0].names[column]}: `, make("strong", { "data-weight": String(weight) }, weight.toFixed(4))));
      }
      row.replaceChildren(...parts);
    }

    canvas.onpointermove = (event) => {
      const place = canvas.getBoundingClientRect(), x = event.clientX - place.left, y = event.clientY - place.top;
      if (isLines) hover(findUnit(units[0].names, Math.min(room(), 720), x, y), -1);
      else {
        const cell = findCell(units[0].names, Math.min(room(), 820), x, y);
        hover(cell && { unit: cell.row, isFrom: true }, cell ? cell.column : -1);
      }
    };
    canvas.onpointerleave = () => hover(null, -1);
    canvas.onclick = () => {
      const token = hovered?.isFrom ? units[0].tokens[hovered.unit][0] : -1;
      update({ token: token === state.token ? -1 : token });
    };
    canvas.onkeydown = (event) => {
      const steps = /** @type {Record<string, number>} */ ({ ArrowUp: -1, ArrowDown: 1, ArrowLeft: -1, ArrowRight: 1 });
      if (event.key === "Escape") update({ token: -1 });
      else if (event.key in steps) {
        const from = pinned()?.unit ?? (steps[event.key] > 0 ? -1 : units[0].names.length);
        const next = Math.max(0, Math.min(units[0].names.length - 1, from + steps[event.key]));
        update({ token: units[0].tokens[next][0] });
      } else return;
      event.preventDefault();
    };

    /** @param {{unit: number, isFrom: boolean} | null} next @param {number} nextColumn */
    function hover(next, nextColumn) {
      if (next?.unit === hovered?.unit && next?.isFrom === hovered?.isFrom && nextColumn === column) return;
      [hovered, column] = [next, nextColumn];
      canvas.style.cursor = next ? "pointer" : "default";
      draw();
    }
    return { draw, scene: () => scene, units: () => units, shown: one, heads };
  }

  /** @param {Shown[]} shown */
  function drawTools(shown) {
    const looked = shown[0]?.looked;
    if (!looked) { tools.replaceChildren(); return; }
    const { view, mode, weights, words, hide, gold, way, heads } = state;
    const asked = JSON.stringify([view, mode, weights, words, hide, gold, way, heads.length > 1 && heads, headColours()]);
    if (looked === toolsOf && asked === toolsFor) return;
    [toolsOf, toolsFor] = [looked, asked];
    const relations = [...new Set(looked.arcs.map(([, , relation]) => relation))].sort();
    const golds = [...(relations.length ? ["all relations", ...relations] : []), ...(looked.chains.length ? ["coreference"] : [])];
    const isSeveral = state.heads.length > 1;
    const knowsWords = hasWords(looked);
    keepFocus(tools, () => tools.replaceChildren(
      segments("Drawing", [["auto", "Auto"], ["lines", "Lines"], ["matrix", "Matrix"]], state.view, (view) => update({ view })),
      ...(isSeveral ? [segments("Several heads", [["one", "First only"], ["overlay", "Overlay"], ...(state.heads.length === 2 ? [/** @type {[string, string]} */ (["difference", "Difference"])] : [])], state.mode, (mode) => update({ mode }))] : []),
      ...(boot.isLive ? [segments("Weights", [["attention", "Attention"], ["norm", "Norms"]], state.weights, (weights) => update({ weights }))] : []),
      checkbox("words", state.words && knowsWords, (words) => update({ words, token: -1 }), knowsWords ? "Attention between words: sums over the pieces attended to, means over those that attend" : "The words of this text are not known", !knowsWords),
      checkbox("hide special tokens", state.hide, (hide) => update({ hide, token: -1 }), "The remaining weights of each row sum to 1 again"),
      ...(golds.length ? [goldTool(golds)] : []),
      ...(isSeveral ? [legendOf()] : []),
    ));
  }

  /** @param {string[]} golds */
  function goldTool(golds) {
    const select = make("select", { id: "gold", "aria-label": "Gold annotation in red" },
      make("option", { value: "" }, "no gold arcs"), ...golds.map((name) => make("option", { value: name }, name)));
    select.value = golds.includes(state.gold) ? state.gold : "";
    select.addEventListener("change", () => update({ gold: select.value }));
    const [low, high] = state.gold === "coreference" ? ["mention", "antecedent"] : ["dependent", "head"];
    const way = make("select", { "aria-label": "Direction of gold arcs" }, make("option", { value: "up" }, `${low} → ${high}`), make("option", { value: "down" }, `${high} → ${low}`));
    way.value = state.way;
    way.addEventListener("change", () => update({ way: way.value }));
    return make("span", { class: "gold-tool" }, select, ...(state.gold ? [way] : []));
  }

  function legendOf() {
    return make("span", { class: "legend" }, ...state.heads.slice(0, MOST_HEADS).map((head, i) => {
      const dot = make("span", { class: "dot" });
      dot.style.background = state.mode === "one" && i ? "transparent" : headColours()[i];
      return make("button", { type: "button", class: "chip", title: `Take head ${head} away`,
        "aria-label": `Take head ${head} away`, onclick: () => update({ heads: state.heads.filter((own) => own !== head), mode: state.heads.length <= 2 ? "one" : state.mode }) }, dot, head, " ×");
    }));
  }

  return { show, draw: () => { for (const drawing of drawings) drawing.draw(); }, drawings: () => drawings };
}

/** @param {string} name @param {number} weight */
function bar(name, weight) {
  const filled = make("span", { class: weight < 0 ? "fill negative" : "fill" });
  filled.style.width = `${Math.min(100, 100 * Math.abs(weight))}%`;
  return make("div", { class: "weight-bar" }, make("span", { class: "name" }, name), make("span", { class: "track" }, filled), make("span", { class: "value" }, sayWeight(weight)));
}

/** @param {import("./types.js").Looked} looked */
function excerpt(looked) {
  const text = (looked.words.length ? looked.words : looked.tokens).join(" ");
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
