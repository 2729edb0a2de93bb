// The page: reads what it was given, looks at the text, and lets each part draw itself.
import { byId, make } from "./dom.js";
import { drawCard, makeSpread } from "./card.js";
import { makeChange } from "./change.js";
import { fromBase64 } from "./decode.js";
import { makeGrid, wireGridTools } from "./grid.js";
import { makeHead } from "./head.js";
import { drawCommand, wireKeep } from "./keep.js";
import { fillMeasures, hasHead, headNames, isFound } from "./measures.js";
import { makeScatter } from "./scatter.js";
import { Unreachable, fileSource, liveSource } from "./source.js";
import { DEFAULTS, fromHash, headsOf, listen, state, update } from "./state.js";
import { fillBox, wireTexts } from "./texts.js";

/** @typedef {import("./types.js").Boot} Boot */
/** @typedef {import("./types.js").Shown} Shown */

/** @type {Boot} */
const boot = JSON.parse(byId("boot").textContent);
Object.defineProperty(boot, "run", { get: () => boot.runs[state.model] }); // what is known of the model that is shown
const source = /** @type {import("./source.js").Source} */ (boot.isLive ? liveSource(boot) : fileSource(boot));
/** @type {(Shown | null)[]} */
const shown = [null, null];
/** @type {AbortController | null} */
let asking = null;

/** @param {string} name @param {Shown} one */
const expect = (name, one) => { if (one.looked.keepsAll !== false) source.map(one.pane, state.weights, name).catch(() => {}); };
const grid = makeGrid(boot, choose, expect), head = makeHead(boot, source), change = makeChange(boot, source), spread = makeSpread(boot, source);
const scatter = makeScatter(boot, choose);

/** @param {string} message @param {boolean} [isProblem] */
function tell(message, isProblem = false) {
  const place = byId("note");
  place.textContent = message;
  place.classList.toggle("problem", isProblem);
}

/** A head was clicked: it is shown, or joins those that are. A second model has heads of its own.
 * @param {string} name @param {boolean} isAdded */
function choose(name, isAdded) {
  const isOther = state.pair && state.side === 1 && state.model !== state.model2;
  const before = isOther ? headsOf(1) : state.heads, others = before.filter((own) => own !== name);
  const heads = !isAdded ? [name] : others.length < before.length && others.length ? others : [...others, name].slice(-4);
  const mode = heads.length < 2 ? "one" : state.mode === "one" ? "overlay" : state.mode;
  update(isOther ? { heads2: heads, mode } : { heads, mode });
}

/** Run the model over the text, or both texts. */
async function look() {
  asking?.abort();
  const mine = asking = new AbortController();
  const panes = [{ text: state.text, id: state.id, model: state.model }, ...(state.pair ? [{ text: state.text2, id: state.id2, model: state.model2 }] : [])];
  if (panes.some((pane) => !pane.text && !pane.id)) { tell("The text is empty. Write a sentence or two, or choose an example.", true); return; }
  document.body.setAttribute("aria-busy", "true");
  const started = performance.now();
  if (boot.isCell && boot.isLive) tell("Waiting for the kernel …"); // which may be busy with other cells
  try {
    for (const [i, pane] of panes.entries()) {
      const looked = await source.look(pane, state.weights, state.heads[0], mine.signal);
      shown[i] = { pane, looked, thumbs: fromBase64(looked.thumbs) };
      fillBox(pane.text || (looked.words.length ? looked.words : looked.tokens.filter((_, t) => !looked.special[t])).join(" "), pane.id, i);
    }
    if (!state.pair) shown[1] = null;
    tell(describe(performance.now() - started));
  } catch (error) {
    if (mine.signal.aborted) return;
    tell(/** @type {Error} */ (error).message, true);
    byId("stopped").hidden = !(error instanceof Unreachable);
  } finally {
    if (mine === asking) document.body.removeAttribute("aria-busy");
  }
  drawAll();
}

/** What was looked at, in a line.
 * @param {number} milliseconds */
function describe(milliseconds) {
  return shown.flatMap((one) => {
    if (!one) return [];
    const model = boot.models[one.pane.model], { looked } = one, n = looked.tokens.length;
    const cut = looked.cutFrom ? ` (the first of ${looked.cutFrom}; the rest is left out)` : "";
    const how = { qk: "maps computed here from queries and keys in half precision", roots8: "maps kept in 8 bits" }[looked.form ?? ""] ?? "";
    const of = model.part ? ` of its ${model.part}` : "";
    const time = boot.isLive ? `, ${Math.round(milliseconds)} ms` : "";
    return [`${model.name}: ${n} tokens${cut}, ${model.layers.length} × ${model.heads} heads${of}${time}. Weights exact to ${Number(looked.precision.toPrecision(2))}${how ? ` (${how})` : ""}.`];
  }).join(" ");
}

function drawAll() {
  const both = /** @type {Shown[]} */ (shown.filter(Boolean));
  byId("work").hidden = !both.length;
  if (!both.length) return;
  grid.show(shown[state.side] ?? shown[0]);
  scatter.draw();
  head.show(both);
  drawCard(boot);
  spread.show();
  change.show(both[0]);
  drawCommand(boot, shown[state.side] ?? both[0]);
  drawControls();
}

/** The head that is shown first: one that the run shows for what it finds, or for what it does. */
function firstHead() {
  const examples = boot.run?.examples ?? [];
  return (examples.find(({ view }) => view.marked.length) ?? examples[0])?.head ?? headNames(boot.models[state.model])[0];
}

/** What is known of the model that is shown: its measures, and what its heads do. */
function takeRun() {
  const hasRun = Boolean(boot.run);
  byId("no-run").hidden = hasRun || !boot.isLive;
  byId("tabs").hidden = !hasRun;
  byId("measure-tools").hidden = !hasRun;
  fillMeasures(boot, byId("measure"), "no measure");
  byId("kinds").replaceChildren(...(boot.run?.kinds ?? []).map(({ name, colour }) => {
    const dot = make("span", { class: "dot" });
    dot.style.background = colour;
    return make("span", {}, dot, name);
  }));
  scatter.fill();
  if (!hasRun) state.tab = "maps";
  state.heads = state.heads.filter((name) => hasHead(boot.models[state.model], name));
  if (!state.heads.length) state.heads = [firstHead()];
}

function drawControls() {
  byId("filter").value = state.filter;
  byId("measure").value = state.measure;
  byId("sort").value = state.sort;
  byId("sort").disabled = !state.measure;
  byId("second").hidden = !state.pair;
  byId("compare").textContent = state.pair ? "One text" : "Compare";
  byId("compare").setAttribute("aria-pressed", String(state.pair));
  byId("model").value = String(state.model);
  byId("model2").value = String(state.model2);
  for (const name of ["maps", "scatter"]) {
    byId(`tab-${name}`).setAttribute("aria-selected", String(state.tab === name));
    byId(`${name}-part`).hidden = state.tab !== name;
  }
  byId("sides").hidden = !state.pair;
  for (const side of [0, 1]) byId(`side-${side}`).setAttribute("aria-pressed", String(state.side === side));
  const model = boot.models[(shown[state.side] ?? shown[0])?.pane.model ?? 0];
  const isFiltered = state.filter.trim() || state.brushed.length, names = isFiltered ? headNames(model) : [];
  byId("found").textContent = isFiltered ? `${names.filter((name) => isFound(boot, name)).length} of ${names.length} heads` : "";
  byId("clear").hidden = !isFiltered;
}

/** What is shown first: what the address says, else what the page was started with. */
function beginning() {
  const asked = fromHash(location.hash), start = fromHash(new URLSearchParams(boot.start).toString());
  return asked.text || asked.id ? asked : { ...start, ...asked };
}

const LOOKS = ["text", "id", "model", "text2", "id2", "model2", "pair", "weights"];
listen((_, changed) => {
  const has = (/** @type {string[]} */ ...names) => names.some((name) => changed.has(name));
  if (has("model")) takeRun();
  drawControls();
  if (has(...LOOKS)) { look(); return; }
  if (has("heads", "heads2", "mode", "view", "words", "hide", "gold", "way")) head.show(/** @type {Shown[]} */ (shown.filter(Boolean)));
  else if (has("token")) head.draw();
  if (has("measure", "sort", "filter", "brushed", "tab", "side")) grid.show(shown[state.side] ?? shown[0]);
  if (has("heads", "heads2", "off")) grid.drawOver();
  if (has("x", "y", "c", "heads", "filter", "brushed", "tab")) scatter.draw();
  if (has("heads")) { drawCard(boot); spread.show(); }
  if (has("heads", "off", "how", "place")) change.show(shown[0] ?? undefined);
  const own = shown[state.side] ?? shown[0];
  if (own) drawCommand(boot, own);
});

/** Light or dark: as the system says, until the button is pressed. */
function wireTheme() {
  const button = byId("theme"), root = document.documentElement;
  const set = (/** @type {boolean} */ isDark) => {
    root.dataset.theme = isDark ? "dark" : "light";
    button.textContent = isDark ? "Light" : "Dark";
    button.setAttribute("aria-pressed", String(isDark));
  };
  const turn = (/** @type {boolean} */ isDark) => { set(isDark); grid.repaint(); drawAll(); };
  set(root.dataset.theme ? root.dataset.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches);
  button.addEventListener("click", () => turn(root.dataset.theme !== "dark"));
  window.addEventListener("message", ({ source, data }) => {
    if (boot.isCell && source === parent && data.theme && data.theme !== root.dataset.theme) turn(data.theme === "dark");
  });
}

/** The cell of a notebook is as high as the page, and a frame may get its width late. */
function wireCell() {
  let width = 0;
  document.body.classList.add("in-cell", ...(boot.isLive ? [] : ["packed"]));
  new ResizeObserver(() => {
    if (document.body.clientWidth !== width) { width = document.body.clientWidth; drawAll(); }
    parent.postMessage({ height: document.body.offsetHeight }, "*");
  }).observe(document.body);
}

function begin() {
  const names = boot.models.filter(({ part }) => ["", "encoder"].includes(part)).map(({ name }) => name);
  document.title = `headscope explore: ${names.join(" and ")}`;
  byId("model-name").textContent = names.join(" and ");
  if (names.length > 1) byId("does").textContent = "do";
  wireTexts(boot);
  wireGridTools(boot);
  wireKeep(boot, source, head.drawings, tell);
  wireTheme();
  if (boot.isCell) wireCell();
  for (const name of ["maps", "scatter"]) byId(`tab-${name}`).addEventListener("click", () => update({ tab: name }));
  for (const side of [0, 1]) byId(`side-${side}`).addEventListener("click", () => update({ side }));
  byId("clear").addEventListener("click", () => update({ filter: "", brushed: [] }));
  let width = window.innerWidth;
  window.addEventListener("resize", () => { if (window.innerWidth !== width) { width = window.innerWidth; drawAll(); } });
  window.addEventListener("hashchange", () => update({ ...DEFAULTS, heads: [firstHead()], ...beginning() }));
  Object.assign(state, beginning());
  state.model = Math.min(Math.max(state.model, 0), boot.models.length - 1);
  state.model2 = Math.min(Math.max(state.model2, 0), boot.models.length - 1);
  takeRun();
  drawControls();
  look();
}

begin();
