// The text bar: type, choose an example, put a second text or model beside the first.
import { byId, make } from "./dom.js";
import { state, update } from "./state.js";

/** @typedef {import("./types.js").Boot} Boot */

/** @param {Boot} boot */
export function wireTexts(boot) {
  const form = byId("text-form"), first = byId("text"), second = byId("text2");
  for (const id of ["model", "model2"]) {
    byId(id).replaceChildren(...boot.models.map((model, i) => make("option", { value: String(i) }, [model.name, ...(model.part ? [model.part] : [])].join(", "))));
    byId(id).hidden = boot.models.length < 2;
    byId(id).addEventListener("change", go);
  }

  /** What a box asks for: a text, or an example by its id.
   * @param {any} box */
  const typed = (box) => ({ text: box.dataset.id ? "" : box.value.trim(), id: box.dataset.id ?? "" });

  function go() {
    const model = Number(byId("model").value), model2 = Number(byId("model2").value);
    const one = typed(first), other = typed(second);
    const wasSame = [other, { text: state.text2, id: state.id2 }].every(({ text, id }) => text === state.text && id === state.id);
    const next = wasSame && model !== model2 ? one : other; // two models stay on the same words
    update({ ...one, text2: next.text, id2: next.id, model, model2,
      heads2: model === model2 ? [] : state.heads2, token: -1, place: -1 });
  }
  form.addEventListener("submit", (/** @type {Event} */ event) => { event.preventDefault(); go(); });
  for (const box of [first, second]) {
    box.addEventListener("input", () => { delete box.dataset.id; });
    box.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); go(); }
    });
  }
  byId("compare").hidden = !boot.isLive && (boot.texts ?? []).length < 2;
  byId("compare").addEventListener("click", () => {
    const isPair = !state.pair;
    if (isPair && !second.value) { second.value = first.value; second.dataset.id = first.dataset.id ?? ""; if (!second.dataset.id) delete second.dataset.id; }
    const { text, id } = typed(second);
    update({ pair: isPair, side: 0, text2: text, id2: id,
      model2: isPair && boot.models.length > 1 ? 1 : Number(byId("model2").value) });
    if (isPair) second.focus();
  });
  wireChooser(boot, (id, excerpt) => {
    const box = byId("chooser").dataset.into === "text2" ? second : first;
    box.value = excerpt;
    box.dataset.id = id;
    go();
  });
}

/** Show in the boxes what is looked at.
 * @param {string} text @param {string} id @param {number} number 0 or 1 */
export function fillBox(text, id, number) {
  const box = byId(number ? "text2" : "text");
  if (document.activeElement !== box || !box.value) box.value = text;
  if (id) box.dataset.id = id;
  else delete box.dataset.id;
}

/** The list of examples, with a field to find some.
 * @param {Boot} boot @param {(id: string, excerpt: string) => void} choose */
function wireChooser(boot, choose) {
  const dialog = byId("chooser"), list = byId("chooser-list"), find = byId("chooser-find");
  const all = boot.isLive ? boot.listed : [{ corpus: "In this file", treebank: "", examples: (boot.texts ?? []).map((text) => /** @type {[string, string]} */ ([text.id ?? "", text.text ?? ""])) }];
  const hasAny = all.some(({ examples }) => examples.length > (boot.isLive ? 0 : 1));
  for (const id of ["choose", "choose2"]) {
    byId(id).hidden = !hasAny;
    byId(id).addEventListener("click", () => {
      dialog.dataset.into = id === "choose" ? "text" : "text2";
      fill();
      dialog.showModal();
      find.focus();
    });
  }
  find.addEventListener("input", fill);

  function fill() {
    const wanted = find.value.trim().toLowerCase();
    list.replaceChildren(...all.flatMap(({ corpus, examples }) => {
      const found = examples.filter(([id, text]) => `${id} ${text}`.toLowerCase().includes(wanted)).slice(0, 60);
      return found.length ? [make("h3", {}, corpus), ...found.map(([id, text]) => make("button", { type: "button", class: "example", onclick: () => {
        dialog.close();
        if (boot.isLive || id) choose(id, text);
        else { byId("text").value = text; delete byId("text").dataset.id; byId("text-form").requestSubmit(); }
      } }, make("span", {}, text), make("span", { class: "id" }, id)))] : [];
    }));
    if (!list.childElementCount) list.replaceChildren(make("p", { class: "soft" }, "Nothing was found."));
  }
}
