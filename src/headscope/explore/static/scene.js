// A picture as a list of shapes: painted on a canvas, or written as SVG. Drawn once, kept twice.

/** @typedef {{kind: "lines", points: number[], colour: string, alpha: number, width: number,
 *   dash?: number[]}} Lines   four numbers a line */
/** @typedef {{kind: "text", x: number, y: number, text: string, size: number, colour: string,
 *   alpha?: number, anchor?: "start" | "middle" | "end", bold?: boolean, turn?: number}} Text */
/** @typedef {{kind: "rect", x: number, y: number, width: number, height: number,
 *   colour: string, alpha?: number}} Rect */
/** @typedef {{kind: "image", canvas: HTMLCanvasElement, x: number, y: number, width: number,
 *   height: number}} Image */
/** @typedef {Lines | Text | Rect | Image} Shape */
/** @typedef {{width: number, height: number, shapes: Shape[], title: string}} Scene */

export const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif";

/** @param {CanvasRenderingContext2D} context @param {Shape[]} shapes */
export function paint(context, shapes) {
  for (const shape of shapes) {
    context.globalAlpha = shape.kind === "image" ? 1 : shape.alpha ?? 1;
    if (shape.kind === "lines") paintLines(context, shape);
    else if (shape.kind === "text") paintText(context, shape);
    else if (shape.kind === "rect") {
      context.fillStyle = shape.colour;
      context.fillRect(shape.x, shape.y, shape.width, shape.height);
    } else {
      context.imageSmoothingEnabled = shape.canvas.width > 2 * shape.width;
      context.drawImage(shape.canvas, shape.x, shape.y, shape.width, shape.height);
    }
  }
  context.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} context @param {Lines} shape */
function paintLines(context, shape) {
  context.strokeStyle = shape.colour;
  context.lineWidth = shape.width;
  context.setLineDash(shape.dash ?? []);
  context.beginPath();
  for (let i = 0; i < shape.points.length; i += 4) {
    context.moveTo(shape.points[i], shape.points[i + 1]);
    context.lineTo(shape.points[i + 2], shape.points[i + 3]);
  }
  context.stroke();
  context.setLineDash([]);
}

/** @param {CanvasRenderingContext2D} context @param {Text} shape */
function paintText(context, shape) {
  context.font = `${shape.bold ? "600 " : ""}${shape.size}px ${FONT}`;
  context.fillStyle = shape.colour;
  context.textAlign = shape.anchor === "middle" ? "center" : shape.anchor === "end" ? "right" : "left";
  context.textBaseline = "alphabetic";
  if (!shape.turn) { context.fillText(shape.text, shape.x, shape.y); return; }
  context.save();
  context.translate(shape.x, shape.y);
  context.rotate(shape.turn * Math.PI / 180);
  context.fillText(shape.text, 0, 0);
  context.restore();
}

/** The scene as an SVG file, on the page's ground.
 * @param {Scene} scene @param {string} ground */
export function toSvg(scene, ground) {
  const drawn = scene.shapes.map(shapeToSvg).join("");
  const size = `width="${scene.width}" height="${scene.height}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} viewBox="0 0 ${scene.width} ${scene.height}" `
    + `font-family="${escapeXml(FONT)}"><title>${escapeXml(scene.title)}</title>`
    + `<rect width="100%" height="100%" fill="${escapeXml(ground)}"/>${drawn}</svg>\n`;
}

/** @param {Shape} shape */
function shapeToSvg(shape) {
  if (shape.kind === "image") {
    return `<image x="${shape.x}" y="${shape.y}" width="${shape.width}" height="${shape.height}" `
      + `preserveAspectRatio="none" image-rendering="pixelated" href="${shape.canvas.toDataURL()}"/>`;
  }
  const colour = escapeXml(shape.colour), alpha = round(shape.alpha ?? 1);
  if (shape.kind === "rect") {
    return `<rect x="${round(shape.x)}" y="${round(shape.y)}" width="${round(shape.width)}" `
      + `height="${round(shape.height)}" fill="${colour}" fill-opacity="${alpha}"/>`;
  }
  if (shape.kind === "text") {
    const turn = shape.turn ? ` transform="rotate(${shape.turn} ${round(shape.x)} ${round(shape.y)})"` : "";
    return `<text x="${round(shape.x)}" y="${round(shape.y)}" font-size="${round(shape.size)}" fill="${colour}" `
      + `fill-opacity="${alpha}" text-anchor="${shape.anchor ?? "start"}"`
      + `${shape.bold ? ' font-weight="600"' : ""}${turn}>${escapeXml(shape.text)}</text>`;
  }
  let path = "";
  for (let i = 0; i < shape.points.length; i += 4) {
    const [x1, y1, x2, y2] = shape.points.slice(i, i + 4).map(round);
    path += `M${x1} ${y1}L${x2} ${y2}`;
  }
  const dash = shape.dash ? ` stroke-dasharray="${shape.dash.join(" ")}"` : "";
  return `<path d="${path}" fill="none" stroke="${colour}" stroke-opacity="${alpha}" `
    + `stroke-width="${round(shape.width)}"${dash}/>`;
}

/** @param {number} number */
const round = (number) => Math.round(number * 100) / 100;

/** Text that markup cannot mistake for its own; what XML may not hold is replaced.
 * @param {string} text */
export function escapeXml(text) {
  // eslint-disable-next-line no-control-regex
  const allowed = text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd");
  return allowed.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
