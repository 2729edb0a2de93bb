// The values that the modules pass on, for the type checker alone.

/** @typedef {{name: string, path: string, layers: number[], heads: number,
 *   part: string, objective: string | null, whyNoHead: string}} Model */

/** @typedef {{summary: string, facts: [string, string][], kind: string,
 *   words: string}} Card */

/** @typedef {{group: string, name: string, isShare: boolean, heads: string[],
 *   values: (number | null)[], low?: (number | null)[], high?: (number | null)[]}} Measure */

/** @typedef {{units: string[], special: number[], weights: [number, number, number][],
 *   marked: [number, number][]}} StoredView */

/** @typedef {{head: string, title: string, end: string, says: string, id: string,
 *   view: StoredView}} StoredExample */

/** @typedef {{kinds: {name: string, colour: string}[],
 *   cards: Record<string, Card>, measures: Measure[], examples: StoredExample[]}} Run */

/** @typedef {{tokens: string[], special: number[], wordOf: number[], words: string[],
 *   cutFrom: number, arcs: [number, number, string][], chains: [number, number, string][],
 *   thumbSize: number, thumbs: string, precision: number, keepsAll?: boolean, form?: string,
 *   shape?: {groups: number, parts: number}, text?: string, id?: string, number?: number,
 *   model?: number}} Looked */

/** @typedef {{isLive: boolean, isCell?: boolean, models: Model[], runs: (Run | null)[], run: Run | null,
 *   listed: {corpus: string, treebank: string, examples: [string, string][]}[], start: Record<string, string>,
 *   meanOf: string, texts?: Looked[]}} Boot */

/** @typedef {{text: string, id: string, model: number}} Pane */

/** @typedef {{pane: Pane, looked: Looked, thumbs: Uint8Array}} Shown */

/** @typedef {{names: string[], special: boolean[], weights: Float32Array,
 *   tokens: number[][]}} Units  one head between tokens or words; tokens[i] are those of unit i */

/** @typedef {{hidden: number[], mean: number, mode: string, why?: string, objective?: string,
 *   place?: number | null, true?: number | null,
 *   predictions?: [string, number, number][]}} Change */

/** @typedef {{roles: string[], role: string, corpus: string,
 *   rows: {id: string, text: string, score: number, count: number}[]}} Spread */

export {};
