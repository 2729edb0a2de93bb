// The explorer in a cell of a notebook: a frame around the page, which passes on what it asks.

const THEME_PAUSE = 300; // milliseconds until the style sheet of another theme is there

/** @param {{model: any, el: HTMLElement}} cell as anywidget gives it */
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.title = "headscope explorer";
  frame.setAttribute("sandbox", "allow-scripts allow-forms allow-downloads"); // an origin of its own
  frame.allow = "clipboard-write";
  frame.style.cssText = "display: block; width: 100%; height: 30rem; border: 0";

  // Notebooks tell their theme in many ways; all write in a light colour on a dark ground.
  const theme = () => ((getComputedStyle(el.isConnected ? el : document.body).color.match(/[\d.]+/g) ?? []).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) > 382 ? "dark" : "light");
  const tell = (/** @type {object} */ message) => frame.contentWindow?.postMessage(message, "*");
  const hear = (/** @type {MessageEvent} */ { source, data }) => {
    if (source !== frame.contentWindow) return;
    if (data.height) {
      frame.style.height = `${data.height}px`;
      tell({ theme: theme() }); // by now the cell is in the notebook
    } else model.send(data);
  };
  frame.addEventListener("load", () => { // also when the cell is scrolled into the notebook again
    const pictures = document.querySelectorAll(`[data-headscope="${model.get("key")}"]`);
    for (const picture of pictures) /** @type {HTMLElement} */ (picture).hidden = true;
  });
  const answer = (/** @type {object} */ message, /** @type {DataView[]} */ [body]) => tell({ ...message, body });
  const watcher = new MutationObserver(() => setTimeout(() => tell({ theme: theme() }), THEME_PAUSE));

  window.addEventListener("message", hear);
  model.on("msg:custom", answer);
  for (const element of [document.documentElement, document.body]) watcher.observe(element, { attributes: true });
  el.replaceChildren(frame);
  frame.srcdoc = model.get("page").replace("<html", `<html data-theme="${theme()}"`);
  return () => {
    window.removeEventListener("message", hear);
    model.off("msg:custom", answer);
    watcher.disconnect();
  };
}

export default { render };
