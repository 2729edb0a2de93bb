"use strict";
// The charts: each is drawn when it comes into view, the rest when the page is at rest.
const root = document.documentElement;
const views = new Map();
const crowded = new Set(["distance-matrix"]); // too many marks for elements of their own

// What a script of the page holds: JSON, or where that is long, JSON compressed and in base64.
const written = (id) => document.getElementById(id).textContent;
const isPlain = (text) => /^[\[{]/.test(text);
async function read(id) {
  const text = written(id);
  if (isPlain(text)) return JSON.parse(text);
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
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

async function draw(place) {
  const name = place.dataset.figure;
  views.get(name)?.finalize();
  views.delete(name);
  const spec = await read("spec-" + name);
  const isCrowded = crowded.has(name) || typeof spec.data?.values === "string"; // CSV: many rows
  const options = {
    renderer: isCrowded ? "canvas" : "svg",
    actions: { export: true, source: false, compiled: false, editor: false },
    downloadFileName: name,
    config: colours(),
  };
  const shown = await vegaEmbed(place, spec, options);
  views.set(name, shown);
  shown.view.addEventListener("click", (event, item) => {
    const datum = item?.datum?.datum ?? item?.datum;
    if (datum?.layer && datum?.head) openCard(`${datum.layer}-${datum.head}`);
  });
  place.dataset.drawn = "yes";
  dispatchEvent(new Event("first-figure")); // heard once
}

const places = [...document.querySelectorAll(".canvas")];
const waiting = new Set(places);

function drawOnce(place) {
  if (waiting.delete(place)) draw(place).catch((error) => {
    place.textContent = "This figure could not be drawn: " + error.message;
    console.error(error);
  });
}

const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) drawOnce(entry.target);
}, { rootMargin: "300px" });
for (const place of places) watcher.observe(place);

const whenAtRest = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));
function drawRest() {
  const [next] = waiting;
  if (!next) return;
  drawOnce(next);
  whenAtRest(drawRest);
}
addEventListener("load", () => setTimeout(() => whenAtRest(drawRest), 500));
addEventListener("beforeprint", () => waiting.forEach(drawOnce));

// Light and dark.
const theme = document.getElementById("theme");
function setTheme(isDark) {
  root.dataset.theme = isDark ? "dark" : "light";
  theme.setAttribute("aria-pressed", isDark);
  theme.textContent = isDark ? "Light" : "Dark";
  for (const place of places) if (!waiting.has(place)) draw(place);
}
theme.addEventListener("click", () => setTheme(root.dataset.theme !== "dark"));
setTheme(matchMedia("(prefers-color-scheme: dark)").matches);

// Cards.
const cards = new Map();
let names = [];
function keepCards(all) {
  for (const card of all) {
    const facts = card.facts.map(([topic, text]) => topic + " " + text);
    card.words = [card.title, card.gist, ...facts].join(" ").toLowerCase();
    cards.set(card.name, card);
  }
  names = [...cards.keys()];
}
// Cards of a large model are read when the first figure is drawn, or one of them is asked for.
let reading = null;
const readCards = () => (reading ??= read("cards").then(keepCards));
if (isPlain(written("cards"))) keepCards(JSON.parse(written("cards")));
else if (!places.length) readCards();
else addEventListener("first-figure", readCards, { once: true });
const dialog = document.getElementById("card");
let shownCard = null;

function openCard(name) {
  const card = cards.get(name);
  if (!card) return;
  shownCard = name;
  document.getElementById("card-title").textContent = card.title;
  document.getElementById("card-gist").textContent = card.gist;
  const facts = document.getElementById("card-facts");
  facts.replaceChildren();
  for (const [topic, text] of card.facts) {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = topic;
    dd.textContent = text;
    facts.append(dt, dd);
  }
  if (card.drawn.length) {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = "drawn";
    card.drawn.forEach(([title, id], place) => {
      const link = document.createElement("a");
      link.textContent = title;
      link.href = "#" + id;
      link.addEventListener("click", () => dialog.close());
      dd.append(...(place ? ["; "] : []), link);
    });
    facts.append(dt, dd);
  }
  if (!dialog.open) dialog.showModal();
  document.getElementById("card-title").focus();
}

function turn(by) {
  openCard(names[(names.indexOf(shownCard) + by + names.length) % names.length]);
}
document.getElementById("card-before").addEventListener("click", () => turn(-1));
document.getElementById("card-after").addEventListener("click", () => turn(1));
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
document.addEventListener("click", (event) => {
  const button = event.target.closest("button.head");
  if (button) openCard(button.dataset.head);
});

// A link to a head opens its card; without this script it leads to the head's row.
async function openAddress() {
  const name = location.hash.match(/^#head-(\d+-\d+)$/)?.[1];
  if (!name) return;
  if (!cards.size) await readCards();
  openCard(name);
}
document.addEventListener("click", async (event) => {
  const link = event.target.closest('a[href^="#head-"]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (!cards.size) await readCards();
  openCard(link.hash.slice("#head-".length));
});
addEventListener("hashchange", openAddress);
openAddress();

// The picture of all heads is one stop of the Tab key; arrows move within it.
for (const grid of document.querySelectorAll("table.grid")) {
  const first = grid.querySelector("a");
  if (first) first.tabIndex = 0;
  grid.addEventListener("keydown", (event) => {
    const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] ?? [0, 0];
    const cell = event.target.closest("td");
    if (!cell || (!down && !right)) return;
    const next = grid.rows[cell.parentNode.rowIndex + down]?.cells[cell.cellIndex + right]?.querySelector("a");
    event.preventDefault();
    if (!next) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

// Search.
const search = document.getElementById("search");
search?.addEventListener("input", () => {
  const wanted = search.value.trim().toLowerCase();
  const isName = /^\d+-\d*$/.test(wanted);
  let count = 0;
  for (const row of document.querySelectorAll("#heads-table tbody tr")) {
    const name = row.querySelector("button").dataset.head;
    row.hidden = isName ? !name.startsWith(wanted) : !cards.get(name)?.words.includes(wanted);
    count += !row.hidden;
  }
  document.getElementById("found").textContent = count === 1 ? "1 head" : `${count} heads`;
});

// Sorting: a column that holds numbers (or heads, 8-10) by them, else by its text.
function keyOf(cell) {
  const text = cell.textContent.trim();
  const head = text.match(/^(\d+)-(\d+)\b/);
  if (head) return 1000 * Number(head[1]) + Number(head[2]);
  const number = text.match(/^[<+]?\s*(-?\d*\.?\d+(e-?\d+)?)/i);
  return number ? Number(number[1]) : text.toLowerCase();
}

function sortBy(table, column, header) {
  const isUp = header.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", isUp ? "ascending" : "descending");
  const body = table.tBodies[0];
  const keyed = [...body.rows].map((row) => [keyOf(row.cells[column]), row]);
  keyed.sort(([a], [b]) => {
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    const order = a < b ? -1 : a > b ? 1 : 0;
    return isUp ? order : -order;
  });
  body.append(...keyed.map(([, row]) => row));
}

for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => sortBy(table, column, header));
  });
}
