// The measures of a run: found by name, said in words; and which heads a filter finds.
import { make } from "./dom.js";
import { state } from "./state.js";

/** @typedef {import("./types.js").Boot} Boot */
/** @typedef {import("./types.js").Measure} Measure */
/** @typedef {import("./types.js").Model} Model */
/** @typedef {{name: string, isShare: boolean, byHead: Map<string, {value: number, low: number | null, high: number | null}>}} Indexed */

/** The names of all heads of a model, layer after layer. Layers have the model's own numbers.
 * @param {Model} model */
export const headNames = ({ layers, heads }) => layers.flatMap((layer) => Array.from({ length: heads }, (_, head) => `${layer}-${head + 1}`));

/** Where a head stands: its layer among those of the model, and its number, both from 0.
 * @param {Model} model @param {string} name @returns {[number, number]} */
export function placeOf({ layers }, name) {
  const [layer, head] = name.split("-").map(Number);
  return [layers.indexOf(layer), head - 1];
}

/** @param {Model} model @param {string} name */
export function hasHead(model, name) {
  const [layer, head] = placeOf(model, name);
  return layer >= 0 && head >= 0 && head < model.heads;
}

/** @param {Model} model */
export function sayHeads({ layers, heads }) {
  const isWhole = layers.every((layer, i) => layer === i + 1);
  return `${layers.length} layers${isWhole ? "" : ` (${layers.join(", ")})`} of ${heads} heads`;
}

/** @type {Map<string, Indexed>} */
const known = new Map();

/** @param {Measure} measure */
export const fullName = (measure) => `${measure.group}: ${measure.name}`;

/** @param {Boot} boot @param {string} name @returns {Indexed | null} */
export function measureOf(boot, name) {
  const key = `${state.model} ${name}`, found = known.get(key);
  if (found || !name) return found ?? null;
  const measure = boot.run?.measures.find((one) => fullName(one) === name);
  if (!measure) return null;
  const byHead = new Map();
  measure.heads.forEach((head, i) => {
    const value = measure.values[i];
    if (value !== null) byHead.set(head, { value, low: measure.low?.[i] ?? null, high: measure.high?.[i] ?? null });
  });
  const indexed = { name, isShare: measure.isShare, byHead };
  known.set(key, indexed);
  return indexed;
}

/** The least and the greatest value; a share begins at 0.
 * @param {Indexed} measure @returns {[number, number]} */
export function range(measure) {
  const values = [...measure.byHead.values()].map(({ value }) => value);
  const least = values.reduce((a, b) => Math.min(a, b), Infinity);
  const most = values.reduce((a, b) => Math.max(a, b), -Infinity);
  return [measure.isShare ? 0 : least, most];
}

/** @param {Indexed} measure @param {number} value */
export function sayValue(measure, value) {
  return measure.isShare ? `${(100 * value).toFixed(1)} %` : value.toPrecision(3);
}

/** A head's value with its interval, in words.
 * @param {Boot} boot @param {string} name @param {string} head */
export function sayMeasure(boot, name, head) {
  const measure = measureOf(boot, name), own = measure?.byHead.get(head);
  if (!measure || !own) return "";
  const interval = own.low !== null && own.high !== null
    ? ` [${sayValue(measure, own.low)} – ${sayValue(measure, own.high)}]` : "";
  return `${name}: ${sayValue(measure, own.value)}${interval}`;
}

/** Whether a head passes the filter: its name, a behaviour, or any plain word of its card.
 * @param {Boot} boot @param {string} head */
export function isFound(boot, head) {
  if (state.brushed.length && !state.brushed.includes(head)) return false;
  const wanted = state.filter.trim().toLowerCase();
  if (!wanted) return true;
  if (/^\d+(-\d*)?$/.test(wanted)) return wanted.includes("-") ? head.startsWith(wanted) : head.startsWith(`${wanted}-`);
  const words = boot.run?.cards[head]?.words ?? "";
  const stem = wanted.replace(/(?<=\w{3})s$/, ""); // determiners, subjects
  return words.includes(wanted) || words.includes(stem);
}

/** Fill a list with all measures, by table.
 * @param {Boot} boot @param {HTMLSelectElement} select @param {string} none words for no measure */
export function fillMeasures(boot, select, none) {
  const groups = new Map();
  for (const measure of boot.run?.measures ?? []) {
    if (!groups.has(measure.group)) groups.set(measure.group, make("optgroup", { label: measure.group }));
    groups.get(measure.group).append(make("option", { value: fullName(measure) }, measure.name));
  }
  select.replaceChildren(...(none ? [make("option", { value: "" }, none)] : []), ...groups.values());
}
