// What the run knows about a head: its card, as in the report, its best and worst examples, and some
// from its whole range over the corpus.
import { byId, make, sharpen } from "./dom.js";
import { pageColour } from "./colour.js";
import { linesScene } from "./lines.js";
import { paint } from "./scene.js";
import { state, update } from "./state.js";

/** @typedef {import("./types.js").Boot} Boot */
/** @typedef {import("./types.js").Spread} Spread */

/** @param {Boot} boot */
export function drawCard(boot) {
  const head = state.heads[0], card = boot.run?.cards[head], place = byId("card-body");
  byId("head-summary").textContent = card?.summary ?? "";
  byId("card-part").hidden = !card;
  byId("examples-part").hidden = true;
  if (!card) { place.replaceChildren(); return; }
  const facts = card.facts.flatMap(([topic, text]) => [make("dt", {}, topic), make("dd", {}, text)]);
  place.replaceChildren(make("dl", { class: "facts" }, ...facts));
  drawExamples(boot, head);
}

/** @param {Boot} boot @param {string} head */
function drawExamples(boot, head) {
  const own = (boot.run?.examples ?? []).filter((example) => example.head === head);
  byId("examples-part").hidden = !own.length;
  const listed = new Set(boot.listed.flatMap(({ examples }) => examples.map(([id]) => id)));
  const titles = [...new Set(own.map(({ title }) => title))];
  byId("examples-body").replaceChildren(...titles.flatMap((title) => [
    make("h4", {}, title),
    make("div", { class: "drawings small" }, ...own.filter((one) => one.title === title).map((one) => {
      const canvas = make("canvas", { role: "img", "aria-label": `${one.end} example, ${one.says}` });
      const open = boot.isLive && listed.has(one.id)
        ? [make("button", { type: "button", onclick: () => update({ id: one.id, text: "", token: -1 }) }, "Look at it")] : [];
      const figure = make("figure", { class: "drawing" }, make("figcaption", {}, make("span", { class: `end ${one.end}` }, one.end), ` ${one.says} `, make("span", { class: "id" }, one.id), " ", ...open), make("div", { class: "scroll" }, canvas));
      requestAnimationFrame(() => drawStored(canvas, one.view));
      return figure;
    })),
  ]));
}

/** A view that the run kept.
 * @param {HTMLCanvasElement} canvas @param {import("./types.js").StoredView} view */
function drawStored(canvas, view) {
  const n = view.units.length, weights = new Float32Array(n * n);
  for (const [from, to, thousandths] of view.weights) weights[from * n + to] = thousandths / 1000;
  const units = { names: view.units, special: view.special.map(Boolean), weights, tokens: view.units.map((_, i) => [i]) };
  const colours = { ink: pageColour("ink"), soft: pageColour("soft"), accent: pageColour("accent"), red: pageColour("gold") };
  const scene = linesScene([{ units, colour: colours.ink }], view.marked, 300, null, colours, "example");
  paint(sharpen(canvas, scene.width, scene.height), scene.shapes);
}

/** How examples are spread over the range of a head, and one from every part of it.
 * @param {Boot} boot @param {import("./source.js").Source} source */
export function makeSpread(boot, source) {
  const part = byId("spread-part"), place = byId("spread-body");
  let drawn = "", role = "";
  part.addEventListener("toggle", () => show());

  async function show() {
    const head = state.heads[0], wanted = `${head} ${role}`;
    part.hidden = !boot.isLive || !boot.run || state.model > 0; // the corpora are read by the first model
    if (part.hidden || !part.open || drawn === wanted) return;
    drawn = wanted;
    place.setAttribute("aria-busy", "true");
    try {
      const spread = await source.spread({ head, role });
      if (drawn !== wanted) return;
      draw(spread);
    } catch (error) {
      if (drawn !== wanted) return;
      drawn = "";
      place.replaceChildren(make("p", { class: "problem" }, /** @type {Error} */ (error).message));
    }
    place.removeAttribute("aria-busy");
  }

  /** @param {Spread} spread */
  function draw({ roles, role: own, corpus, rows }) {
    const select = make("select", { "aria-label": "Role", id: "spread-role" }, ...roles.map((name) => make("option", { value: name }, name)));
    select.value = own;
    select.addEventListener("change", () => { role = select.value; show(); });
    const total = rows.reduce((sum, { count }) => sum + count, 0), most = Math.max(...rows.map(({ count }) => count));
    place.replaceChildren(
      make("div", { class: "tools" }, make("label", {}, "Role ", select), make("span", { class: "soft" }, `${total} examples of ${corpus}`)),
      make("div", {}, ...rows.map((row) => drawRow(row, most))),
      make("p", { class: "hint" }, "Each line is a part of the head's range of scores, at most a tenth of it. It shows the score of one example (a share of attention, or right minus wrong answers) and how many examples of the corpus are in this part."),
    );
  }

  /** @param {Spread["rows"][0]} row @param {number} most */
  function drawRow({ id, text, score, count }, most) {
    const filled = make("span", { class: "fill" });
    filled.style.width = `${100 * count / most}%`;
    const example = id ? make("button", { type: "button", title: id, onclick: () => update({ id, text: "", token: -1 }) }, text)
      : make("span", { class: "soft" }, "its corpus cannot be read again");
    return make("div", { class: "range-part" }, make("span", { class: "value" }, String(Number(score.toFixed(2)))),
      make("span", { class: "track" }, filled), make("span", { class: "value" }, String(count)), example);
  }
  return { show };
}
