// A head over the corpus: how its examples are spread over its range, and some from every tenth.
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
    const head = state.heads[0];
    if (part.hidden || !part.open || drawn === head) return;
    drawn = head;
    place.replaceChildren(make("p", { class: "soft" }, "Examples of the run's corpora are scored once, for all heads …"));
    try {
      const spreads = await source.spread({ head });
      if (drawn === head) draw(spreads);
    } catch (error) {
      drawn = "";
      place.replaceChildren(make("p", { class: "problem" }, /** @type {Error} */ (error).message));
    }
  }

  /** @param {Spread[]} spreads */
  function draw(spreads) {
    if (!spreads.length) { place.replaceChildren(make("p", { class: "soft" }, "No analysis of this run ranked examples of this head.")); return; }
    const chosen = spreads.find((one) => one.role === role) ?? spreads.reduce((best, one) => (one.mean > best.mean ? one : best));
    role = chosen.role;
    const select = make("select", { "aria-label": "Role", id: "spread-role" }, ...spreads.map((one) => make("option", { value: one.role }, one.role)));
    select.value = role;
    select.addEventListener("change", () => { role = select.value; draw(spreads); });
    const most = Math.max(...chosen.tenths.map(({ count }) => count));
    place.replaceChildren(
      make("div", { class: "tools" }, make("label", {}, "Role ", select), make("span", { class: "soft" }, `${chosen.count} examples of ${chosen.corpus}, mean ${say(chosen.mean)}`)),
      make("div", { class: "tenths" }, ...[...chosen.tenths].reverse().flatMap((tenth) => row(tenth, most))),
      make("p", { class: "hint" }, "Each line is a tenth of the head's range, from its best examples down: a share of attention, or answers right minus answers wrong."),
    );
  }

  /** @param {Spread["tenths"][0]} tenth @param {number} most */
  function row(tenth, most) {
    const filled = make("span", { class: "fill" });
    filled.style.width = `${100 * tenth.count / most}%`;
    return [make("div", { class: "tenth" },
      make("span", { class: "value" }, `${say(tenth.low)} to ${say(tenth.high)}`),
      make("span", { class: "track" }, filled), make("span", { class: "value" }, String(tenth.count)),
      make("span", { class: "of-tenth" }, ...tenth.examples.map(([id, score, text]) => make("button", { type: "button", title: `${id}: ${say(score)}`, onclick: () => update({ id, text: "", token: -1 }) }, text.length > 44 ? `${text.slice(0, 44)}…` : text))))];
  }
  return { show };
}

/** @param {number} score */
const say = (score) => String(Number(score.toFixed(2)));
