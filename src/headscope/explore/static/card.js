// What the run knows about a head: its card, as in the report, and its best and worst examples.
import { byId, make, sharpen } from "./dom.js";
import { pageColour } from "./colour.js";
import { linesScene } from "./lines.js";
import { paint } from "./scene.js";
import { state, update } from "./state.js";

/** @typedef {import("./types.js").Boot} Boot */

/** @param {Boot} boot */
export function drawCard(boot) {
  const head = state.heads[0], card = boot.run?.cards[head], place = byId("card-body");
  byId("gist").textContent = card?.gist ?? "";
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
  const listed = new Set(boot.shelf.flatMap(({ examples }) => examples.map(([id]) => id)));
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
