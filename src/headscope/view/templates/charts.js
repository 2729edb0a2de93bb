"use strict";
// How charts are drawn. This stands below the first one, which is drawn while the rest is read.
const root = document.documentElement;
root.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
const views = new Map();
const crowded = new Set(["distance-matrix"]); // too many marks for elements of their own

// What a script of the page holds: JSON, or where that is long, JSON compressed and in base64.
const written = (id) => document.getElementById(id).textContent;
const isPlain = (text) => /^[\[{]/.test(text);
async function read(id) {
  const text = written(id);
  if (isPlain(text)) return JSON.parse(text);
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i); // from() takes ten times as long
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

function colours() {
  const style = getComputedStyle(root);
  const ink = style.getPropertyValue("--ink").trim(), soft = style.getPropertyValue("--soft").trim();
  return {
    axis: { labelColor: ink, titleColor: ink, domainColor: soft, tickColor: soft },
    header: { labelColor: ink, titleColor: ink },
    legend: { labelColor: ink, titleColor: ink },
    title: { color: ink },
    text: { color: ink },
  };
}

// A chart that is too wide for its place: fewer panels in a row and legends of one column below
// it (`fold`), then narrower panels (`squeeze`). A square stays one.
const across = (spec) =>
  spec.facet ? (spec.columns ?? 1) * across(spec.spec)
    : spec.hconcat ? spec.hconcat.reduce((sum, part) => sum + across(part), 0)
      : spec.vconcat ? Math.max(...spec.vconcat.map(across)) : spec.width ?? 0;

function fold(spec, room) {
  const { hconcat, vconcat, ...folded } = spec;
  const stacked = hconcat ?? vconcat;
  if (stacked) folded.vconcat = stacked.map((part) => fold(part, room));
  if (spec.columns) folded.columns = Math.max(1, Math.floor(spec.columns * room / (across(spec) + 60)));
  if (spec.config) folded.config = { ...spec.config, legend: { ...spec.config.legend, orient: "bottom", columns: 1 } };
  return folded;
}

// Legends with columns of their own: one item a line.
const stackLegends = (spec) => JSON.parse(JSON.stringify(spec, (key, value) =>
  key === "legend" && value?.columns ? { ...value, orient: "bottom", columns: 1 } : value));

function squeeze(spec, factor) {
  if (Array.isArray(spec)) return spec.map((part) => squeeze(part, factor));
  const squeezed = { ...spec };
  for (const part of ["spec", "layer", "vconcat"]) if (spec[part]) squeezed[part] = squeeze(spec[part], factor);
  const isSquare = spec.width === spec.height;
  if (spec.width) squeezed.width = spec.width * factor;
  if (spec.height && isSquare) squeezed.height = spec.height * factor;
  const mark = spec.mark ?? {};
  if (mark.type === "image") squeezed.mark = { ...mark, width: mark.width * factor, height: mark.height * factor };
  if (mark.angle) squeezed.mark = { ...mark, fontSize: mark.fontSize * factor }; // names side by side
  return squeezed;
}

const roomOf = (place) => place.clientWidth - 40; // beside it is the menu

async function draw(place) {
  const name = place.dataset.figure;
  const room = roomOf(place);
  let spec = await read("spec-" + name);
  const isLong = Object.values(spec.datasets ?? {}).some((rows) => typeof rows === "string"); // CSV: many rows
  const options = {
    renderer: isLong || crowded.has(name) ? "canvas" : "svg",
    actions: { export: true, source: false, compiled: false, editor: false },
    downloadFileName: name,
    config: colours(),
  };
  async function embed() {
    views.get(name)?.finalize();
    views.set(name, await vegaEmbed(place, spec, options));
    const drawn = place.querySelector("svg, canvas"); // of its own width, whatever is shown of it
    return (drawn.viewBox?.baseVal.width ?? drawn.width / devicePixelRatio) - room;
  }
  let excess = across(spec) > room ? 1 : await embed();
  if (excess > 0) { spec = stackLegends(fold(spec, room)); excess = await embed(); }
  for (let tries = 0; excess > 0 && tries < 3; tries++) { // words beside the panels do not shrink with them
    spec = squeeze(spec, Math.max(0.2, 1 - excess / across(spec)));
    excess = await embed();
  }
  for (const empty of place.querySelectorAll("g[role=graphics-symbol]:empty")) empty.removeAttribute("role"); // no mark
  place.dataset.room = room;
  place.querySelector("summary")?.setAttribute("aria-label", "Save this figure");
  views.get(name).view.addEventListener("click", (event, item) => {
    const datum = item?.datum?.datum ?? item?.datum;
    if (datum?.layer && datum?.head) window.openCard?.(`${datum.layer}-${datum.head}`); // not yet read: no card
  });
  place.dataset.drawn = "yes";
  place.dispatchEvent(new CustomEvent("drawn", { bubbles: true, detail: spec }));
  dispatchEvent(new Event("first-figure")); // heard once
}

const waiting = new Set(document.querySelectorAll(".canvas"));

// One after the other, so that none waits for those below it.
let drawing = Promise.resolve();
function drawOnce(place) {
  if (waiting.delete(place)) drawing = drawing.then(() => draw(place)).catch((error) => {
    place.textContent = "This figure could not be drawn: " + error.message;
    console.error(error);
  });
}
waiting.forEach(drawOnce);
