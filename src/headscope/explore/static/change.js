// Heads switched off: what the model predicts before and after, and how far each token moves.
import { byId, make, segments } from "./dom.js";
import { faded, pageColour } from "./colour.js";
import { state, update } from "./state.js";

/** @typedef {import("./types.js").Boot} Boot */
/** @typedef {import("./types.js").Shown} Shown */

const WAYS = /** @type {Record<string, string>} */ ({
  zero: "its output is removed",
  mean: "its output is replaced by its mean over",
  sink: "its attention to closing tokens (or the first token) goes to the others",
});

/** @param {Boot} boot @param {import("./source.js").Source} source */
export function makeChange(boot, source) {
  const tools = byId("change-tools"), place = byId("change-body");
  let turn = 0;

  /** @param {Shown | undefined} shown */
  async function show(shown) {
    drawTools();
    if (!boot.isLive) {
      place.replaceChildren(make("p", { class: "soft" }, "This file has no model in it. To switch heads off, run: "), make("code", {}, `headscope explore ${boot.models[0].path}`));
      return;
    }
    if (!shown || !state.off.length) {
      place.replaceChildren(make("p", { class: "soft" }, "Switch heads off to see what changes: each token's hidden state, and what the model predicts."));
      return;
    }
    const mine = ++turn;
    place.setAttribute("aria-busy", "true");
    try {
      const answer = await source.change({ ...shown.pane, heads: state.off, mode: state.how, place: state.place >= 0 ? state.place : null });
      if (mine === turn) drawAnswer(answer, shown);
    } catch (error) {
      if (mine === turn && /** @type {Error} */ (error).name !== "AbortError") place.replaceChildren(make("p", { class: "problem" }, /** @type {Error} */ (error).message));
    }
    if (mine === turn) place.removeAttribute("aria-busy");
  }

  function drawTools() {
    const head = state.heads[0], isOff = state.off.includes(head);
    tools.replaceChildren(
      make("button", { type: "button", id: "switch", class: isOff ? "" : "primary", disabled: !boot.isLive, onclick: () => update({ off: isOff ? state.off.filter((own) => own !== head) : [...state.off, head] }) },
        isOff ? `Switch head ${head} on again` : `Switch head ${head} off`),
      segments("How", [["zero", "Zero"], ["mean", "Mean"], ["sink", "Sink"]], state.how, (how) => update({ how })),
      ...state.off.map((own) => make("button", { type: "button", class: "chip", "aria-label": `Switch head ${own} on`, onclick: () => update({ off: state.off.filter((one) => one !== own) }) }, `${own} ×`)),
      make("span", { class: "soft" }, `${state.how}: ${WAYS[state.how]}${state.how === "mean" ? ` ${boot.meanOf}` : ""}`),
    );
  }

  /** @param {import("./types.js").Change} answer @param {Shown} shown */
  function drawAnswer(answer, shown) {
    const model = boot.models[shown.pane.model];
    const most = Math.max(...answer.hidden, 1e-9), accent = pageColour("accent");
    const canPredict = Boolean(model.objective);
    const tokens = shown.looked.tokens.map((token, i) => {
      const chip = make("button", { type: "button", class: "token", "aria-pressed": String(answer.place === i), disabled: !canPredict,
        title: `${token}: 1 - cosine ${answer.hidden[i].toFixed(4)}`, "data-change": String(answer.hidden[i]), onclick: () => update({ place: state.place === i ? -1 : i }) }, token);
      chip.style.background = faded(accent, 0.55 * answer.hidden[i] / most);
      return chip;
    });
    place.replaceChildren(
      make("h4", {}, "Hidden states"),
      make("p", { class: "soft" }, "How far the final hidden state of each token moves (1 − cosine). Mean ",
        make("strong", { id: "change-mean", "data-value": String(answer.mean) }, answer.mean.toFixed(4)), `, most ${most.toFixed(4)}.`),
      make("div", { class: "tokens" }, ...tokens),
      make("h4", {}, "Predictions"), ...predictions(answer, shown, canPredict),
    );
  }

  /** @param {import("./types.js").Change} answer @param {Shown} shown @param {boolean} canPredict */
  function predictions(answer, shown, canPredict) {
    if (!canPredict) return [make("p", { class: "soft" }, `${boot.models[shown.pane.model].name} predicts no tokens. ${boot.models[shown.pane.model].whyNoHead}`)];
    const isMasked = answer.objective === "masked";
    if (!answer.predictions || answer.place === null || answer.place === undefined) {
      return [make("p", { class: "soft" }, isMasked ? "Click a token above to hide it from the model and see what it predicts there, or write [MASK] in the text." : "Click a token above to see what the model predicts after it.")];
    }
    const token = shown.looked.tokens[answer.place];
    const rows = answer.predictions.map(([name, before, after], i) => make("tr", i === answer.true ? { class: "true" } : {},
      make("th", { scope: "row" }, name.trim() || name.replaceAll("\n", "↵").replaceAll(" ", "␣"), ...(i === answer.true ? [make("span", { class: "soft" }, " (in the text)")] : [])),
      share(before), share(after)));
    return [
      make("p", { class: "soft" }, isMasked ? `In the place of "${token}", hidden from the model:` : `After "${token}":`),
      make("table", { class: "predictions" }, make("thead", {}, make("tr", {}, make("th", {}, "token"), make("th", {}, "before"), make("th", {}, "after"))), make("tbody", {}, ...rows)),
    ];
  }
  return { show };
}

/** @param {number} value */
function share(value) {
  const filled = make("span", { class: "fill" });
  filled.style.width = `${100 * value}%`;
  return make("td", {}, make("span", { class: "track" }, filled), make("span", { class: "value" }, `${(100 * value).toFixed(1)} %`));
}
