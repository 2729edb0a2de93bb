// A head over the corpus: how examples are spread over its range, and one from every part of it.
import { byId, make } from "./dom.js";
import { state, update } from "./state.js";

/** @typedef {import("./types.js").Boot} Boot */
/** @typedef {import("./types.js").Spread} Spread */

/** @param {Boot} boot @param {import("./source.js").Source} source */
export function makeSpread(boot, source) {
  const part = byId("spread-part"), place = byId("spread-body");
  let drawn = "", role = "";
  part.hidden = !boot.isLive || !boot.run;
  part.addEventListener("toggle", () => show());

  async function show() {
    const head = state.heads[0], wanted = `${head} ${role}`;
    if (part.hidden || !part.open || drawn === wanted) return;
    drawn = wanted;
    place.setAttribute("aria-busy", "true");
    try {
      const spread = await source.spread({ head, role });
      if (drawn === wanted) draw(spread);
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
