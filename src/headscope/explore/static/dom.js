// Elements made safely: what comes from a model or a text is only ever set as text.

/** The element of this id.
 * @param {string} id @returns {any} */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}

/** An element with attributes, handlers (`onclick`) and children; strings become text.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node | string)} children
 * @returns {any} */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  element.append(...children);
  return element;
}

/** A row of buttons of which one is chosen.
 * @param {string} label @param {[string, string][]} choices value and words
 * @param {string} chosen @param {(value: string) => void} choose */
export function segments(label, choices, chosen, choose) {
  const buttons = choices.map(([value, words]) =>
    make("button", { type: "button", "aria-pressed": String(value === chosen),
      "data-value": value, onclick: () => choose(value) }, words));
  return make("span", { class: "segments", role: "group", "aria-label": label }, ...buttons);
}

/** A labelled switch.
 * @param {string} words @param {boolean} isOn @param {(isOn: boolean) => void} turn
 * @param {string} [why] what it does, or why it cannot be used
 * @param {boolean} [isDisabled] */
export function checkbox(words, isOn, turn, why = "", isDisabled = false) {
  const input = make("input", { type: "checkbox", disabled: isDisabled });
  input.checked = isOn;
  input.addEventListener("change", () => turn(input.checked));
  return make("label", { class: "switch", title: why }, input, words);
}

/** A canvas as sharp as the screen, cleared, with its context in CSS pixels. To set its size, even to
 * what it is, would make its memory anew.
 * @param {HTMLCanvasElement} canvas @param {number} width @param {number} height
 * @returns {CanvasRenderingContext2D} */
export function sharpen(canvas, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across || canvas.height !== down) {
    [canvas.width, canvas.height] = [across, down];
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Put keyboard focus back where it was after a part was drawn anew.
 * @param {HTMLElement} place @param {() => void} draw */
export function keepFocus(place, draw) {
  const active = /** @type {HTMLElement | null} */ (document.activeElement);
  const all = () => [...place.querySelectorAll("button, input, select, [tabindex]")];
  const index = active && place.contains(active) ? all().indexOf(active) : -1;
  draw();
  if (index >= 0) /** @type {HTMLElement | undefined} */ (all()[index])?.focus();
}
