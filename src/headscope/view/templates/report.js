"use strict";
// The charts after the first: each is drawn when it comes into view, the rest when the page is at rest.
const places = [...document.querySelectorAll(".canvas")];
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) drawOnce(entry.target);
}, { rootMargin: "300px" });
for (const place of places.slice(1)) {
  waiting.add(place);
  watcher.observe(place);
}

const whenAtRest = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));
function drawRest() {
  const [next] = waiting;
  if (!next) return;
  drawOnce(next);
  whenAtRest(drawRest);
}
addEventListener("load", () => whenAtRest(drawRest));
addEventListener("beforeprint", () => waiting.forEach(drawOnce));

// A screen that was turned, or a window of another width.
let turned = 0;
addEventListener("resize", () => {
  clearTimeout(turned);
  turned = setTimeout(() => {
    const isOfOtherWidth = (place) => place.dataset.drawn && Math.abs(roomOf(place) - place.dataset.room) > 20;
    places.filter(isOfOtherWidth).forEach(draw);
  }, 200);
});

// Light and dark.
const theme = document.getElementById("theme");
function nameTheme() {
  const isDark = root.dataset.theme === "dark";
  theme.setAttribute("aria-pressed", isDark);
  theme.textContent = isDark ? "Light" : "Dark";
}
theme.addEventListener("click", () => {
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  nameTheme();
  for (const place of places) if (!waiting.has(place)) draw(place);
});
nameTheme();

// Cards.
const cards = new Map();
let names = [];
function keepCards(all) {
  for (const card of all) cards.set(card.name, card);
  names = [...cards.keys()];
}
// Cards of a large model are read when the first figure is drawn, or one of them is asked for.
let reading = null;
const readCards = () => (reading ??= read("cards").then(keepCards));
const writtenCards = written("cards").length;
if (isPlain(written("cards"))) keepCards(JSON.parse(written("cards")));
else if (!places.length || places[0].dataset.drawn) readCards();
else addEventListener("first-figure", readCards, { once: true });
const dialog = document.getElementById("card");
let shownCard = null;

const make = (tag, text = "", className = "") => {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
};
const linkTo = (name) => Object.assign(make("a", name, "head"), { href: "#head-" + name });

// A number of a card: what it is of, a bar (its value, a tick for the baseline, its rank), words.
function drawPart([label, value = "", bar = null, mark = null, rank = 0, nHeads = 0, note = "", head = ""]) {
  const part = make("div", "", "part"), drawn = make("span", "", "bar");
  const name = make("span", head ? "" : label);
  if (head) name.append(linkTo(head));
  const percent = (share) => `${100 * Math.max(0, Math.min(1, share))}%`;
  if (bar !== null) drawn.append(Object.assign(make("i"), { style: `width: ${percent(bar)}` }));
  if (mark !== null) drawn.append(Object.assign(make("b"), { style: `left: ${percent(mark)}` }));
  if (rank) drawn.append(Object.assign(make("u"), { style: `width: ${percent((nHeads - rank + 1) / nHeads)}` }));
  const said = make("span", value, "value");
  const more = [rank ? `rank ${rank} of ${nHeads}` : "", note].filter(Boolean).join("; ");
  said.append(" ", make("small", more));
  part.append(name, drawn, said);
  return part;
}

// The best examples of the head, copied from where they are shown.
function drawExamples(card) {
  const best = card.drawn.flatMap(([title, id]) => {
    const first = document.querySelector(`#${id} .drawing.best`)?.cloneNode(true);
    if (!first) return [];
    const link = Object.assign(make("a", title), { href: "#" + id });
    link.addEventListener("click", () => dialog.close());
    first.querySelector("figcaption").prepend(link, " ");
    return [first];
  });
  document.getElementById("card-drawings").replaceChildren(...best.slice(0, 4));
}

function openCard(name) {
  const card = cards.get(name);
  shownCard = card ? name : null;
  document.getElementById("card-title").textContent = card ? `Head ${name}` : `There is no head ${name}`;
  document.getElementById("card-summary").textContent = card ? card.summary : `This page has ${names.length} heads, from ${names[0]} to ${names.at(-1)}.`;
  for (const id of ["card-before", "card-after"]) document.getElementById(id).hidden = !card;
  const facts = document.getElementById("card-facts");
  facts.replaceChildren();
  for (const [topic, said] of card?.facts ?? []) {
    const dd = make("dd");
    dd.append(...(typeof said === "string" ? [said] : said.map(drawPart)));
    facts.append(make("dt", topic), dd);
  }
  drawExamples(card ?? { drawn: [] });
  if (card) history.replaceState(null, "", "#head-" + name);
  if (!dialog.open) dialog.showModal();
  document.getElementById("card-title").focus();
  dialog.scrollTop = 0;
}

function turn(by) {
  if (shownCard) openCard(names[(names.indexOf(shownCard) + by + names.length) % names.length]);
}
document.getElementById("card-before").addEventListener("click", () => turn(-1));
document.getElementById("card-after").addEventListener("click", () => turn(1));
dialog.addEventListener("keydown", (event) => {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (by) { event.preventDefault(); turn(by); }
});
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
dialog.addEventListener("close", () => {
  if (location.hash.startsWith("#head-")) history.replaceState(null, "", location.pathname + location.search);
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("button.head");
  if (button) openCard(button.dataset.head);
});

// An address leads to what it names: a head to its card, an example or a term to where it is folded.
async function openAddress() {
  const name = location.hash.match(/^#head-(.+)$/)?.[1];
  if (name && names.length + writtenCards) {
    if (!cards.size) await readCards();
    return openCard(decodeURIComponent(name));
  }
  const place = location.hash ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
  const folded = place?.closest("details:not([open])");
  if (folded) { folded.open = true; place.scrollIntoView(); }
}
document.addEventListener("click", async (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (!link.hash.startsWith("#head-")) { setTimeout(openAddress); return; }
  event.preventDefault();
  if (!cards.size) await readCards();
  openCard(link.hash.slice("#head-".length));
});
addEventListener("hashchange", openAddress);
openAddress();

// What is folded is printed too, but for the list of what was not measured.
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details.example, details.claims-group")) folded.open = true;
});

// Its colours show where heads look, or what they find.
const overview = document.getElementById("overview");
for (const button of overview?.querySelectorAll(".switch button") ?? []) {
  button.addEventListener("click", () => {
    overview.className = button.dataset.shows;
    for (const other of overview.querySelectorAll(".switch button")) other.setAttribute("aria-pressed", other === button);
  });
}

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

// Search: every word must begin a word by which a head is found; of no head, words it is described with.
const search = document.getElementById("search");
const idle = new Set(["a", "an", "and", "at", "find", "finds", "head", "heads", "in", "look", "looks", "of", "on", "or", "that", "the", "to", "token", "tokens", "which", "word", "words"]);
const split = (text) => text.toLowerCase().split(/[^\p{L}\p{N}:.,'-]+/u).map((word) => word.replace(/^[.,'-]+|[.,'-]+$/g, "")).filter(Boolean);
const stem = (word) => word.length > 4 ? word.replace(/(es|s)$/, "") : word;
function findHeads(wanted) {
  if (/^\d+-\d*$/.test(wanted)) return names.filter((name) => wanted.endsWith("-") ? name.startsWith(wanted) : name === wanted);
  const asked = split(wanted).filter((word) => !idle.has(word)).map(stem);
  if (!asked.length) return [];
  const matching = (textOf) => names.filter((name) => {
    const own = split(textOf(cards.get(name)));
    return asked.every((word) => own.some((one) => one.startsWith(word)));
  });
  const found = matching((card) => card.words);
  return found.length ? found : matching((card) => card.summary);
}
search?.addEventListener("input", async () => {
  if (!cards.size) await readCards();
  const wanted = search.value.trim();
  const found = new Set(wanted ? findHeads(wanted) : names);
  for (const row of document.querySelectorAll("#heads-table tbody tr")) row.hidden = !found.has(row.id.slice("head-".length));
  const none = `No head for “${wanted}”. Try a head (5-5), or what heads do: previous, determiner, object, pronoun, [SEP], broad.`;
  document.getElementById("found").textContent = !found.size ? none : found.size === 1 ? "1 head" : `${found.size} heads`;
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

// What can be copied: tables and figures, for a paper.
async function copyText(text) {
  try { await navigator.clipboard.writeText(text); } catch { // not allowed on this page: the old way
    const field = document.body.appendChild(Object.assign(make("textarea"), { value: text }));
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}
async function copyFrom(button, text) {
  await copyText(text);
  const name = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = name; }, 1200);
}
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copyFrom(button, button.dataset.copy);
  const more = event.target.closest(".more-rows");
  if (!more) return;
  const isOpen = more.getAttribute("aria-expanded") === "true";
  more.setAttribute("aria-expanded", String(!isOpen));
  for (const row of more.parentElement.querySelectorAll("tr.more")) row.hidden = isOpen;
});

const escapeCsv = (value) => /[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value ?? "";
const asCsv = (rows) => typeof rows === "string" ? rows
  : [Object.keys(rows[0] ?? {}), ...rows.map(Object.values)].map((row) => row.map(escapeCsv).join(",")).join("\n") + "\n";
const escapeLatex = (text) => text.replace(/[&%$#_{}]/g, "\\$&").replaceAll("<", "\\textless{}").replaceAll(">", "\\textgreater{}");
// The menu of a figure: its data, and the lines that put its picture into a paper.
function addCopies(place, spec) {
  const menu = place.querySelector(".vega-actions");
  const caption = escapeLatex(place.previousElementSibling?.textContent.trim() ?? "");
  const latex = `\\begin{figure}\n\\centering\n\\includegraphics[width=\\linewidth]{${place.dataset.figure}.pdf}\n\\caption{${caption}}\n\\end{figure}\n`;
  for (const [name, text] of [["Copy LaTeX", () => latex], ["Copy CSV", () => Object.values(spec.datasets ?? {}).map(asCsv).join("\n")]]) {
    const link = Object.assign(make("a", name), { href: "#" });
    link.addEventListener("click", (event) => { event.preventDefault(); copyFrom(link, text()); });
    menu?.append(link);
  }
}
document.addEventListener("drawn", (event) => addCopies(event.target, event.detail));
for (const place of places) if (place.dataset.drawn) read("spec-" + place.dataset.figure).then((spec) => addCopies(place, spec));
