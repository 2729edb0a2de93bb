// What can be kept: a link, pictures, numbers, the command that draws the same, this page as a file.
import { byId, make } from "./dom.js";
import { pageColour } from "./colour.js";
import { paint, toSvg } from "./scene.js";
import { headsOf, state, toHash } from "./state.js";

/** @typedef {import("./types.js").Boot} Boot */
/** @typedef {import("./head.js").Drawing} Drawing */

/** @param {Boot} boot @param {import("./source.js").Source} source
 * @param {() => Drawing[]} drawings @param {(message: string) => void} tell */
export function wireKeep(boot, source, drawings, tell) {
  const kept = () => drawings()[state.side] ?? drawings()[0]; // of two texts, the one whose maps are shown
  const name = () => `${boot.models[kept()?.shown.pane.model ?? state.model].name}-${headsOf(state.side).join("-")}`.replace(/[^\w.-]+/g, "-");

  byId("keep-svg").addEventListener("click", () => {
    const scene = kept()?.scene();
    if (scene) download(new Blob([toSvg(scene, pageColour("page"))], { type: "image/svg+xml" }), `${name()}.svg`);
  });
  byId("keep-png").addEventListener("click", () => {
    const scene = kept()?.scene();
    if (!scene) return;
    const canvas = make("canvas", { width: 2 * scene.width, height: 2 * scene.height });
    const context = canvas.getContext("2d");
    context.scale(2, 2);
    context.fillStyle = pageColour("page");
    context.fillRect(0, 0, scene.width, scene.height);
    paint(context, scene.shapes);
    canvas.toBlob((/** @type {Blob} */ blob) => download(blob, `${name()}.png`));
  });
  byId("keep-csv").addEventListener("click", () => {
    const drawing = kept();
    if (drawing) download(new Blob([toCsv(drawing)], { type: "text/csv" }), `${name()}.csv`);
  });
  byId("keep-link").addEventListener("click", () => copy(`${location.href.split("#")[0]}#${toHash(state)}`, "The link to this view is copied.", tell));
  byId("keep-link").hidden = Boolean(boot.isCell);
  byId("keep-command").addEventListener("click", () => copy(byId("command").textContent, "The command is copied.", tell));
  byId("keep-page").hidden = !boot.isLive;
  byId("keep-page").addEventListener("click", async () => {
    tell("The file is being written …");
    const panes = [{ text: state.text, id: state.id, model: state.model }];
    if (state.pair) panes.push({ text: state.text2, id: state.id2, model: state.model2 });
    try {
      download(await source.save({ panes, start: Object.fromEntries(new URLSearchParams(toHash(state))) }), `${name()}.html`);
      tell("The page is saved: one file, with the maps inside.");
    } catch (error) {
      tell(/** @type {Error} */ (error).message);
    }
  });
}

/** The row of the token that is kept, or all rows: from, to, weight, and the heads' names.
 * @param {Drawing} drawing */
export function toCsv(drawing) {
  const [first] = drawing.units(), n = first.names.length;
  const kept = first.tokens.findIndex((tokens) => tokens.includes(state.token));
  const lines = ["head,from_position,from,to_position,to,weight"];
  drawing.units().forEach((units, i) => {
    const head = drawing.heads.length > drawing.units().length ? drawing.heads.join(" minus ") : drawing.heads[i];
    for (let from = 0; from < n; from++) {
      if (kept >= 0 && from !== kept) continue;
      for (let to = 0; to < n; to++) lines.push([head, from + 1, quote(units.names[from]), to + 1, quote(units.names[to]), units.weights[from * n + to].toPrecision(6)].join(","));
    }
  });
  return `${lines.join("\n")}\n`;
}

/** A field that a table program takes as text: no formula begins in it.
 * @param {string} text */
const quote = (text) => `"${(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;

/** The command that draws the same: of the text, or of a sentence of a treebank with its arcs.
 * @param {Boot} boot @param {import("./types.js").Shown} shown */
export function drawCommand(boot, { pane, looked }) {
  const corpus = boot.listed.find(({ treebank, examples }) => treebank && examples.some(([id]) => id === pane.id));
  const what = corpus ? ["--treebank", shell(corpus.treebank), "--sentence", shell(pane.id)] : [shell(pane.text || looked.words.join(" "))];
  const parts = ["headscope", "show", shell(boot.models[pane.model].path), ...what, "--head", headsOf(state.side)[0]];
  if (corpus && state.gold && !/ relations$|^coreference$/.test(state.gold)) parts.push("--relation", shell(state.gold));
  if (corpus && state.way === "down") parts.push("--direction", "head-to-dependent");
  if (state.words) parts.push("--words");
  if (state.hide) parts.push("--hide-special");
  byId("command").textContent = parts.join(" ");
}

/** @param {string} text */
const shell = (text) => (/^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** @param {Blob} blob @param {string} name */
function download(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** @param {string} text @param {string} done @param {(message: string) => void} tell */
async function copy(text, done, tell) {
  try {
    await navigator.clipboard.writeText(text);
    tell(done);
  } catch {
    tell("The browser does not allow copying; take it from the address bar, or select the command.");
  }
}
