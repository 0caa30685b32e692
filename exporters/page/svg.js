/* Pictures as SVG files that open alone: without style, script or other files. */
const SVG_WIDTH = 1200;
const xml = (text) => String(text).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
  .replace(/[&<>"]/g, (letter) => "&#" + letter.charCodeAt(0) + ";");

/* "hsl(210 65% 72%)" as "#9abfe5", which all programs read. */
function hex(colour) {
  const parts = colour.match(/^hsl\(([\d.]+) ([\d.]+)% ([\d.]+)%\)$/);
  if (!parts) return colour;
  const [h, s, l] = [parts[1] / 30, parts[2] / 100, parts[3] / 100], a = s * Math.min(l, 1 - l);
  const part = (n) => l - a * Math.max(-1, Math.min((n + h) % 12 - 3, 9 - (n + h) % 12, 1));
  return "#" + [0, 8, 4].map((n) => Math.round(255 * part(n)).toString(16).padStart(2, "0")).join("");
}

/* `parts` are the elements; `y` is the height that they take. */
function svgText(title, y, parts) {
  return `<svg xmlns="${d3.namespaces.svg}" width="${SVG_WIDTH}" height="${y}" viewBox="0 0 ${SVG_WIDTH} ${y}" ` +
    `font-family="sans-serif" font-size="12">\n<title>${xml(title)}</title>\n<rect width="100%" height="100%" fill="#fff"/>\n` +
    `<text x="8" y="18" font-size="14">${xml(title)}</text>\n${parts.join("\n")}\n</svg>\n`;
}

const cut = (text, width) => width < 30 ? "" : text.length * 7 <= width ? text : text.slice(0, Math.floor(width / 7) - 1) + "…";

/* The flame graph or icicle, zoomed as it is. Frames narrower than a tenth of a pixel are left out. */
function flameSvg(flame, title) {
  const root = d3.select(flame.place).datum(), top = (flame.zoomed && flame.find(flame.zoomed)) || root, down = flame.chart.inverted();
  const parts = [], deepest = { depth: 0 };
  const place = (node, x, width, depth) => {
    if (width < 0.1) return;
    deepest.depth = Math.max(deepest.depth, depth);
    parts.push({ node, x, width, depth });
    for (const child of node.children || []) {
      const wide = width * child.data.value / (node.data.value || 1);
      place(child, x, wide, depth + 1);
      x += wide;
    }
  };
  place(top, 4, SVG_WIDTH - 8, 0);
  const height = 30 + (deepest.depth + 1) * FRAME_HEIGHT + 6;
  return svgText(title, height, parts.map(({ node, x, width, depth }) => {
    const y = 30 + (down ? depth : deepest.depth - depth) * FRAME_HEIGHT;
    return `<g><title>${xml(flame.describe(node))}</title><rect x="${x.toFixed(2)}" y="${y}" width="${width.toFixed(2)}" ` +
      `height="${FRAME_HEIGHT - 1}" fill="${hex(flame.colour(node))}"/><text x="${(x + 4).toFixed(2)}" y="${y + 15}">` +
      `${xml(cut(node.data.name, width - 8))}</text></g>`;
  }));
}

/* The stacked chart, with its bands named beside it. */
function chartSvg({ bands, moments, show, perSecond }, title) {
  const left = 90, right = SVG_WIDTH - 320, top = 40, bottom = 400, parts = [];
  const sums = moments.map(() => 0), first = moments[0].time, last = moments.at(-1).time;
  const most = Math.max(1, ...moments.map((_, k) => bands.reduce((sum, band) => sum + band.values[k], 0)));
  const x = (k) => left + (right - left) * (last > first ? (moments[k].time - first) / (last - first) : 0);
  const y = (value) => bottom - (bottom - top) * value / most;
  const point = (k, value) => x(k).toFixed(1) + "," + y(value).toFixed(1);
  for (const band of bands) { /* the first one is at the bottom, as in the chart */
    const below = moments.map((_, k) => point(k, sums[k])).reverse();
    band.values.forEach((value, k) => { sums[k] += value; });
    parts.push(`<g><title>${xml(band.name)}</title><polygon points="${[...moments.map((_, k) => point(k, sums[k])), ...below].join(" ")}" ` +
      `fill="${hex(band.colour)}"/></g>`);
  }
  for (const part of [0, 0.25, 0.5, 0.75, 1])
    parts.push(`<text x="${left - 6}" y="${(y(most * part) + 4).toFixed(1)}" text-anchor="end">${xml(show(Math.round(most * part)) + perSecond)}</text>`);
  for (const [k, anchor] of [[0, "start"], [moments.length - 1, "end"]])
    parts.push(`<text x="${x(k).toFixed(1)}" y="${bottom + 18}" text-anchor="${anchor}">${xml(timeText(moments[k]))}</text>`);
  bands.slice().reverse().forEach((band, i) => parts.push(`<rect x="${right + 20}" y="${top + i * 20}" width="12" height="12" fill="${hex(band.colour)}"/>` +
    `<text x="${right + 38}" y="${top + 11 + i * 20}">${xml(cut(band.name, 270))}</text>`));
  return svgText(title, bottom + 30, parts);
}
