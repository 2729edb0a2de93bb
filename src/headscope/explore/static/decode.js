// From bytes to maps: roots in 8 or 16 bits, or queries and keys of which a map is made.

/** @param {string} text base64 @returns {Uint8Array} */
export function fromBase64(text) {
  const native = /** @type {any} */ (Uint8Array).fromBase64; // in newer browsers, much quicker
  if (native) return native.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** @param {Uint8Array} bytes raw deflate @returns {Promise<ArrayBuffer>} */
export function inflate(bytes) {
  const stream = new Blob([/** @type {BlobPart} */ (bytes)]).stream();
  return new Response(stream.pipeThrough(new DecompressionStream("deflate-raw"))).arrayBuffer();
}

/** Weights from their roots.
 * @param {Uint8Array | Uint16Array} roots @returns {Float32Array} */
export function fromRoots(roots) {
  const most = roots instanceof Uint8Array ? 255 : 65535;
  const weights = new Float32Array(roots.length);
  for (let i = 0; i < roots.length; i++) {
    const root = roots[i] / most;
    weights[i] = root * root;
  }
  return weights;
}

/** @type {Float32Array | null} */
let halves = null;

/** Every number of half precision by its bits. */
function halfTable() {
  if (halves) return halves;
  halves = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    halves[bits] = exponent === 0 ? sign * fraction * 2 ** -24
      : exponent === 31 ? (fraction ? NaN : sign * Infinity)
      : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  }
  return halves;
}

/** @param {Uint16Array} bits @returns {Float32Array} */
export function fromHalves(bits) {
  const table = halfTable();
  const numbers = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) numbers[i] = table[bits[i]];
  return numbers;
}

/** A head's map: the softmax of queries times keys, over the keys that a query may look at. Keys
 * are turned, and eight parts taken at a time, each in an array of its own: four times as fast as
 * the plain sum.
 * @param {Float32Array} queries [query, part], scaled @param {Float32Array} keys [key, part]
 * @param {Uint16Array} ranges first and last + 1 visible key of each query
 * @param {number} size of a part @returns {Float32Array} */
export function attend(queries, keys, ranges, size) {
  const n = queries.length / size, padded = 8 * Math.ceil(size / 8);
  const turned = Array.from({ length: padded }, () => new Float32Array(n)); // [part][key]
  for (let key = 0; key < n; key++) for (let i = 0; i < size; i++) turned[i][key] = keys[key * size + i];
  const weights = new Float32Array(n * n), scores = new Float32Array(n), query = new Float32Array(padded);
  for (let q = 0; q < n; q++) {
    const first = ranges[2 * q], end = ranges[2 * q + 1];
    query.set(queries.subarray(q * size, (q + 1) * size));
    scores.fill(0);
    for (let i = 0; i < padded; i += 8) {
      const a = query[i], b = query[i + 1], c = query[i + 2], d = query[i + 3];
      const e = query[i + 4], f = query[i + 5], g = query[i + 6], h = query[i + 7];
      const A = turned[i], B = turned[i + 1], C = turned[i + 2], D = turned[i + 3];
      const E = turned[i + 4], F = turned[i + 5], G = turned[i + 6], H = turned[i + 7];
      for (let k = first; k < end; k++) scores[k] += a * A[k] + b * B[k] + c * C[k] + d * D[k] + e * E[k] + f * F[k] + g * G[k] + h * H[k];
    }
    softmax(scores, first, end, weights, q * n);
  }
  return weights;
}

/** @param {Float32Array} scores @param {number} first @param {number} end
 * @param {Float32Array} weights @param {number} row where it begins */
function softmax(scores, first, end, weights, row) {
  let highest = -Infinity, total = 0;
  for (let k = first; k < end; k++) if (scores[k] > highest) highest = scores[k];
  for (let k = first; k < end; k++) total += weights[row + k] = Math.exp(scores[k] - highest);
  for (let k = first; k < end; k++) weights[row + k] /= total;
}

/** One head of a layer's bytes.
 * @param {ArrayBuffer} bytes @param {string} form @param {number} head
 * @param {number} nHeads @param {number} n tokens
 * @param {{groups: number, parts: number} | undefined} shape @returns {Float32Array} */
export function readHead(bytes, form, head, nHeads, n, shape) {
  if (form === "roots8") return fromRoots(new Uint8Array(bytes, head * n * n, n * n));
  if (form === "roots16") return fromRoots(new Uint16Array(bytes, 2 * head * n * n, n * n));
  const { groups, parts } = /** @type {{groups: number, parts: number}} */ (shape);
  const numbers = new Uint16Array(bytes);
  const size = n * parts, keys = nHeads * size, ranges = keys + groups * size;
  const group = Math.floor(head * groups / nHeads);
  return attend(
    fromHalves(numbers.subarray(head * size, (head + 1) * size)),
    fromHalves(numbers.subarray(keys + group * size, keys + (group + 1) * size)),
    numbers.subarray(ranges, ranges + 2 * n),
    parts,
  );
}
