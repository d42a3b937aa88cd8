// Charts as SVG. Each has a title for screen readers, and a table of its numbers.

const space = 'http://www.w3.org/2000/svg';
const left = 58, right = 14, top = 14, bottom = 48;
// Text keeps its size: a chart on a phone has fewer units.
let width = 560, height = 330;

export function make(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) {
    if (k in e && k !== 'list' && typeof v !== 'string') e[k] = v;
    else e.setAttribute(k, v);
  }
  e.append(...children.flat().filter((c) => c != null));
  return e;
}

function draw(tag, attributes, text) {
  const e = document.createElementNS(space, tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return e;
}

// number writes a number with some significant digits.
export function number(x, digits = 3) {
  if (x === null || x === undefined || !Number.isFinite(x)) return '∞';
  if (x === 0) return '0';
  const a = Math.abs(x);
  if (a >= 1e6 || a < 1e-3) {
    const [m, e] = x.toExponential(Math.max(0, digits - 1)).split('e');
    const mantissa = m.includes('.') ? m.replace(/\.?0+$/, '') : m, power = `10${superscript(String(Number(e)))}`;
    return mantissa === '1' ? power : `${mantissa}·${power}`;
  }
  if (a >= 1000) return Math.round(x).toLocaleString('en');
  return String(Number(x.toPrecision(digits)));
}

// formula returns a text as nodes: what follows ^ is raised, what follows _ is lowered, and an
// equation stays on one line.
export function formula(text) {
  return text.replace(/ ([=≤≈]) /g, '\u00a0$1\u00a0').split(/(\^(?:\([^)]*\)|[−\p{L}\d]+)|(?<=\p{L})_\p{L}+)/u).map((part) => {
    if (part.startsWith('^')) return make('sup', {}, part.slice(1).replace(/^\((.*)\)$/, '$1'));
    return part.startsWith('_') ? make('sub', {}, part.slice(1)) : part;
  });
}

const superscript = (s) => s.replace(/./g, (c) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[c] ?? '⁻');

function scale(values, from, to, { log, min, max }, space) {
  const finite = values.filter((v) => Number.isFinite(v) && (!log || v > 0));
  let lo = min ?? Math.min(...finite), hi = max ?? Math.max(...finite);
  if (!(hi > lo)) { hi = lo + (Math.abs(lo) || 1); }
  const f = log ? Math.log10 : (v) => v, back = log ? (v) => 10 ** v : (v) => v;
  // No curve lies on the frame, unless it is at a limit that was given.
  const room = 0.04 * (f(hi) - f(lo));
  if (space) [lo, hi] = [min ?? back(f(lo) - room), max ?? back(f(hi) + room)];
  const place = (v) => from + (f(v) - f(lo)) / (f(hi) - f(lo)) * (to - from);
  return { place, lo, hi, ticks: log ? decades(lo, hi) : steps(lo, hi) };
}

function steps(lo, hi) {
  const rough = (hi - lo) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const all = [];
  for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi + step * 1e-9; i++) all.push(Number((i * step).toPrecision(12)));
  return all;
}

function decades(lo, hi) {
  const all = [];
  const wide = Math.log10(hi / lo) > 2.5;
  for (let e = Math.floor(Math.log10(lo)); e <= Math.ceil(Math.log10(hi)); e++) {
    for (const m of wide ? [1] : [1, 2, 5]) {
      const v = Number((m * 10 ** e).toPrecision(3));
      if (v >= lo * 0.999 && v <= hi * 1.001) all.push(v);
    }
  }
  return all;
}

// lines draws series {name, x, y, style, points} of numbers. Values that are not finite are left out.
export function lines({ title, x, y, series, marks = [] }) {
  const svg = frame(title);
  const xs = scale(series.flatMap((s) => s.x), left, width - right, x);
  const ys = scale(series.flatMap((s) => s.y), height - bottom, top, y, true);
  axes(svg, xs, ys, x, y);
  series.forEach((s, k) => {
    let path = '', pen = 'M';
    s.x.forEach((v, i) => {
      const u = s.y[i];
      if (!Number.isFinite(u) || u === null || (y.log && u <= 0) || (x.log && v <= 0)) { pen = 'M'; return; }
      const cx = xs.place(v), cy = ys.place(Math.min(Math.max(u, ys.lo), ys.hi));
      if (s.points) svg.append(draw('circle', { cx, cy, r: 3, class: `fill ${colour(s, k)}` }));
      path += `${pen}${cx.toFixed(1)} ${cy.toFixed(1)}`;
      pen = 'L';
    });
    if (!s.points && path) svg.append(draw('path', { d: path, class: `s ${colour(s, k)} ${s.style ?? ''}` }));
  });
  for (const m of marks) {
    const cx = xs.place(m.x), cy = ys.place(Math.min(Math.max(m.y, ys.lo), ys.hi));
    svg.append(draw('circle', { cx, cy, r: 5, class: `fill k${m.k ?? 0}` }));
    const end = cx > width * 0.75;
    svg.append(draw('text', { x: cx + (end ? -9 : 9), y: cy - 8, 'text-anchor': end ? 'end' : 'start', class: 'mark' }, m.text));
  }
  return figure(svg, title, series, [x.label, ...series.map((s) => s.name)], tableOfLines(series));
}

const colour = (s, k) => s.k ?? `k${k % 7}`;

function tableOfLines(series) {
  const all = [...new Set(series.flatMap((s) => s.x))].sort((a, b) => a - b);
  const shown = all.length > 40 ? all.filter((_, i) => i % Math.ceil(all.length / 40) === 0) : all;
  return shown.map((v) => [v, ...series.map((s) => { const i = s.x.indexOf(v); return i < 0 ? '' : s.y[i]; })]);
}

// bars draws groups of bars: names along the axis, series {name, y, low, high}.
export function bars({ title, names, y, series, line, label }) {
  const svg = frame(title);
  const ys = scale([...series.flatMap((s) => s.high ?? s.y), line?.y ?? 0], height - bottom, top, y, true);
  const xs = { place: (i) => left + (i + 0.5) * (width - left - right) / names.length, ticks: [] };
  axes(svg, xs, ys, { label: label ?? '' }, y);
  const slot = (width - left - right) / names.length, each = slot * 0.78 / series.length;
  names.forEach((name, i) => {
    series.forEach((s, k) => {
      const v = s.y[i];
      if (!Number.isFinite(v)) return;
      const from = ys.place(Math.max(ys.lo, 0)), to = ys.place(Math.min(v, ys.hi));
      const at = xs.place(i) - slot * 0.39 + k * each;
      svg.append(draw('rect', { x: at, y: Math.min(from, to), width: Math.max(1, each - 1), height: Math.abs(from - to), class: `fill ${colour(s, k)} ${s.style ?? ''}` }));
      if (s.low) svg.append(draw('path', { d: `M${at + each / 2} ${ys.place(s.low[i])}V${ys.place(s.high[i])}`, class: 's kx' }));
    });
    if (names.length <= 12) svg.append(draw('text', { x: xs.place(i), y: height - bottom + 17, 'text-anchor': 'middle', class: 'soft' }, name));
  });
  const legend = series.map((s) => ({ ...s, area: true }));
  if (line) {
    svg.append(draw('path', { d: `M${left} ${ys.place(line.y)}H${width - right}`, class: 's k1 dash' }));
    legend.push({ name: line.name, k: 'k1', style: 'dash' });
  }
  return figure(svg, title, legend, [label ?? '', ...series.map((s) => s.name)], names.map((n, i) => [n, ...series.map((s) => s.y[i])]));
}

// surface draws a grid of values from low to high, and a path over it.
export function surface({ title, grid, size, low, high, path, x, y }) {
  const svg = frame(title);
  const xs = scale([low, high], left, width - right, x), ys = scale([low, high], height - bottom, top, y);
  const least = Math.min(...grid), most = Math.max(...grid), levels = 12;
  const cell = (high - low) / (size - 1);
  grid.forEach((v, i) => {
    // Equal steps of the root of the loss: the picture shows the valley.
    const level = Math.floor(levels * Math.sqrt((v - least) / (most - least)));
    const cx = low + (i % size) * cell, cy = low + Math.floor(i / size) * cell;
    const x0 = xs.place(Math.max(low, cx - cell / 2)), x1 = xs.place(Math.min(high, cx + cell / 2));
    const y0 = ys.place(Math.min(high, cy + cell / 2)), y1 = ys.place(Math.max(low, cy - cell / 2));
    svg.append(draw('rect', { x: x0, y: y0, width: x1 - x0, height: y1 - y0, 'shape-rendering': 'crispEdges', class: 'fill k0', 'fill-opacity': (0.75 * (1 - level / levels)).toFixed(3) }));
  });
  axes(svg, xs, ys, x, y);
  const at = ([a, b]) => `${xs.place(clampTo(a, low, high)).toFixed(1)} ${ys.place(clampTo(b, low, high)).toFixed(1)}`;
  svg.append(draw('path', { d: 'M' + path.map(at).join('L'), class: 's k1' }));
  const [sx, sy] = at(path[0]).split(' '), [ex, ey] = at(path.at(-1)).split(' ');
  svg.append(draw('circle', { cx: sx, cy: sy, r: 4, class: 's k1' }), draw('circle', { cx: ex, cy: ey, r: 5, class: 'fill k1' }));
  const series = [{ name: 'path of the weights, from the ring to the dot', k: 'k1' }, { name: 'loss: the stronger the colour, the smaller', k: 'k0', area: true }];
  return figure(svg, title, series, ['lot', x.label, y.label], path.map((p, i) => [i, p[0], p[1]]));
}

const clampTo = (v, lo, hi) => Math.min(Math.max(v, lo), hi);

// picture draws numbers from 0 to 1 as pixels.
export function picture(pixels, side, label) {
  const svg = draw('svg', { viewBox: `0 0 ${side} ${side}`, role: 'img', 'aria-label': label, class: 'small' });
  pixels.forEach((v, i) => {
    if (v > 0.02) svg.append(draw('rect', { x: i % side, y: Math.floor(i / side), width: 1.05, height: 1.05, class: 'pixel', 'fill-opacity': v.toFixed(2) }));
  });
  return svg;
}

function frame(title) {
  width = innerWidth < 600 ? 360 : 560;
  height = innerWidth < 600 ? 270 : 330;
  return draw('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': title });
}

function axes(svg, xs, ys, x, y) {
  for (const t of ys.ticks) {
    const at = ys.place(t);
    svg.append(draw('path', { d: `M${left} ${at}H${width - right}`, class: 'grid' }));
    svg.append(draw('text', { x: left - 7, y: at + 4, 'text-anchor': 'end', class: 'soft' }, tick(t, y)));
  }
  for (const t of xs.ticks) {
    const at = xs.place(t);
    svg.append(draw('path', { d: `M${at} ${height - bottom}v5`, class: 'axis' }));
    svg.append(draw('text', { x: at, y: height - bottom + 18, 'text-anchor': 'middle', class: 'soft' }, tick(t, x)));
  }
  svg.append(draw('path', { d: `M${left} ${top}V${height - bottom}H${width - right}`, class: 's kx', 'stroke-width': 1 }));
  svg.append(draw('text', { x: (left + width - right) / 2, y: height - 8, 'text-anchor': 'middle' }, x.label ?? ''));
  svg.append(draw('text', { x: 13, y: (top + height - bottom) / 2, 'text-anchor': 'middle', transform: `rotate(-90 13 ${(top + height - bottom) / 2})` }, y.label ?? ''));
}

const tick = (t, { percent }) => (percent ? `${number(100 * t)}%` : number(t)).replace('-', '−');

function figure(svg, title, series, head, rows) {
  const legend = make('ul', { class: 'legend' }, series.map((s, k) => {
    const key = draw('svg', { viewBox: '0 0 26 10', 'aria-hidden': 'true' });
    key.append(s.area ? draw('rect', { x: 8, width: 10, height: 10, class: `fill ${colour(s, k)} ${s.style ?? ''}` })
      : draw('path', { d: 'M0 5H26', class: `s ${colour(s, k)} ${s.style ?? ''}` }));
    return make('li', {}, key, make('span', {}, formula(s.name)));
  }));
  const table = make('table', {}, make('caption', {}, title),
    make('thead', {}, make('tr', {}, head.map((h) => make('th', { scope: 'col' }, h)))),
    make('tbody', {}, rows.map((r) => make('tr', {}, r.map((c) => make('td', { class: 'n' }, typeof c === 'number' || c === null ? number(c, 4).replace('-', '−') : String(c)))))));
  return make('figure', {}, make('figcaption', {}, title), svg, legend,
    make('details', { class: 'data' }, make('summary', {}, 'Numbers of this chart'), make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `Numbers: ${title}` }, table)));
}
