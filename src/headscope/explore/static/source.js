// Where looks, maps and changes come from: the server, or what lies in this file.
import { fromBase64, fromRoots, inflate, readHead } from "./decode.js";
import { placeOf } from "./measures.js";

/** @typedef {import("./types.js").Boot} Boot */
/** @typedef {import("./types.js").Pane} Pane */
/** @typedef {import("./types.js").Looked} Looked */

const KEPT_LAYERS = 16; // of a file, unpacked
const KEPT_NUMBERS = 60_000_000; // of maps that stay in memory

export class Unreachable extends Error {}

/** The latest things asked for, by name, up to a size. */
class Memory {
  constructor() {
    /** @type {Map<string, Promise<Float32Array>>} */
    this.kept = new Map();
    this.size = 0;
  }

  /** @param {string} name @param {() => Promise<Float32Array>} build */
  get(name, build) {
    const known = this.kept.get(name);
    if (known) {
      this.kept.delete(name);
      this.kept.set(name, known);
      return known;
    }
    const made = build();
    this.kept.set(name, made);
    made.then((map) => this.#count(map.length), () => this.kept.delete(name));
    return made;
  }

  /** @param {number} more */
  #count(more) {
    this.size += more;
    for (const [name, map] of this.kept) {
      if (this.size <= KEPT_NUMBERS || this.kept.size <= 2) break;
      this.kept.delete(name);
      map.then((old) => (this.size -= old.length), () => {});
    }
  }
}

/** As `fetch`, of the kernel of the notebook that this page is a cell of.
 * @param {string} what @param {{body: string, signal?: AbortSignal}} question
 * @returns {Promise<Response>} */
function askKernel(what, { body, signal }) {
  const id = Math.random();
  parent.postMessage({ id, what, question: body }, "*");
  return new Promise((answer, fail) => {
    /** @param {MessageEvent} event */
    const hear = ({ source, data }) => {
      if (source !== parent || data.id !== id) return;
      removeEventListener("message", hear);
      answer(new Response(data.body, { status: data.status }));
    };
    addEventListener("message", hear);
    signal?.addEventListener("abort", () => { removeEventListener("message", hear); fail(signal.reason); });
  });
}

/** The model behind a server, or behind a notebook.
 * @param {Boot} boot */
export function liveSource(boot) {
  const memory = new Memory();
  /** @type {AbortController | null} */
  let waiting = null;

  /** @param {string} what @param {object} question @param {AbortSignal} [signal] */
  async function ask(what, question, signal) {
    let answer;
    try {
      answer = await (boot.isCell ? askKernel : fetch)(what, {
        method: "POST", signal, body: JSON.stringify(question),
        headers: { "content-type": "application/json" },
      });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new Unreachable("The server has stopped. The texts on this page stay. Start "
        + "`headscope explore` again to look at more.");
    }
    if (answer.ok) return answer;
    const said = await answer.json().catch(() => ({}));
    throw new Error(said.error ?? `The server answered ${answer.status}.`);
  }

  return {
    /** @param {Pane} pane @param {string} weights @param {string} head that will be asked for first
     * @param {AbortSignal} [signal] @returns {Promise<Looked>} */
    look: async (pane, weights, head, signal) => (await ask("look", { ...pane, weights, head }, signal)).json(),

    /** @param {Pane} pane @param {string} weights @param {string} head */
    map: (pane, weights, head) => memory.get(JSON.stringify([pane, weights, head]), async () =>
      fromRoots(new Uint16Array(await (await ask("map", { ...pane, weights, head })).arrayBuffer()))),

    /** @param {object} question @returns {Promise<import("./types.js").Change>} */
    async change(question) {
      waiting?.abort();
      waiting = new AbortController();
      return (await ask("change", question, waiting.signal)).json();
    },

    /** @param {object} question @returns {Promise<import("./types.js").Spread>} */
    spread: async (question) => (await ask("spread", question)).json(),

    /** @param {object} question @returns {Promise<Blob>} */
    save: async (question) => (await ask("save", question)).blob(),
  };
}

/** What was put into this file.
 * @param {Boot} boot */
export function fileSource(boot) {
  const memory = new Memory();
  const texts = boot.texts ?? [];
  /** @type {Map<string, Promise<ArrayBuffer>>} */
  const layers = new Map();

  /** @param {Pane} pane */
  function find(pane) {
    const same = texts.find((looked) => looked.model === pane.model
      && (pane.id ? looked.id === pane.id : !looked.id && looked.text === pane.text));
    if (!same) throw new Error("This file holds other texts. To look at a new one, run: headscope explore "
      + boot.models[pane.model].path);
    return same;
  }

  /** @param {string} id */
  function layerBytes(id) {
    let bytes = layers.get(id);
    if (!bytes) {
      const text = document.getElementById(id)?.textContent ?? "";
      bytes = inflate(fromBase64(text));
      layers.set(id, bytes);
      if (layers.size > KEPT_LAYERS) layers.delete(/** @type {string} */ (layers.keys().next().value));
    }
    return bytes;
  }

  /** Unpack layers while nothing else is done, so that their heads open at once.
   * @param {Looked} looked @param {number} layer */
  function unpack(looked, layer) {
    if (layer >= Math.min(boot.models[looked.model ?? 0].layers.length, KEPT_LAYERS)) return;
    window.requestIdleCallback?.(() => layerBytes(`layer-${looked.number}-${layer}`).then(() => unpack(looked, layer + 1)));
  }

  return {
    /** @param {Pane} pane @returns {Promise<Looked>} */
    look: async (pane) => {
      const looked = find(pane);
      unpack(looked, 0);
      return looked;
    },

    /** @param {Pane} pane @param {string} weights @param {string} head */
    map: (pane, weights, head) => memory.get(JSON.stringify([pane, head]), async () => {
      const looked = find(pane), model = boot.models[pane.model];
      const [layer, number] = placeOf(model, head);
      const bytes = await layerBytes(`layer-${looked.number}-${layer}`);
      return readHead(bytes, looked.form ?? "", number, model.heads, looked.tokens.length, looked.shape);
    }),

    /** @returns {Promise<import("./types.js").Change>} */
    change: async () => { throw new Error("This file has no model in it."); },

    /** @returns {Promise<import("./types.js").Spread>} */
    spread: async () => { throw new Error("This file has no run's corpora in it."); },

    /** @returns {Promise<Blob>} */
    save: async () => { throw new Error("This is that file."); },
  };
}

/** @typedef {ReturnType<typeof liveSource>} Source */
