"use strict";
// The map: points by WebGL, names on a second canvas, all text through textContent.
// root: the document or shadow root with the elements; map: the data; handlers: optional callbacks chosen(i),
// drag(event, place) (returns a handler of the drag), over(pen, colours), wheel(event), escape().
function mapView(root, map, handlers = {}) {
  const $ = (id) => root.getElementById(id);
  const trouble = (text) => { $("trouble").textContent = text; $("trouble").hidden = false; };
  function made(kind, text, name) {
    const element = document.createElement(kind);
    if (text !== undefined) element.textContent = text;
    if (name) element.className = name;
    return element;
  }
  const count = map.x.length;
  const x = Float32Array.from(map.x), y = Float32Array.from(map.y), none = (value) => value === null || value !== value;

  // ---- the view: centre view.x, view.y; view.scale pixels a unit, times view.tall vertically
  const bounds = [Infinity, -Infinity, Infinity, -Infinity];
  for (let i = 0; i < count; i++) {
    bounds[0] = Math.min(bounds[0], x[i]); bounds[1] = Math.max(bounds[1], x[i]);
    bounds[2] = Math.min(bounds[2], y[i]); bounds[3] = Math.max(bounds[3], y[i]);
  }
  const view = { x: 0, y: 0, scale: 1, tall: 1 }, size = { width: 1, height: 1, ratio: 1 };
  const edge = 26;  // pixels around the points, for their names
  let fitted = 1;
  // The range without the outermost thousandth on each side, so that outliers do not shrink everything else.
  function inner(values) {
    const rising = Float32Array.from(values).sort(), off = Math.floor(count / 1000);
    return [rising[off], rising[count - 1 - off]];
  }
  const most = [...inner(x), ...inner(y)];
  // The map fills its frame: the axes of a layout have no meaning, so they may be scaled differently, within limits.
  function fit() {
    const wide = Math.max(most[1] - most[0], 1e-3), high = Math.max(most[3] - most[2], 1e-3);
    view.tall = Math.min(Math.max((size.height - 2 * edge) / high / ((size.width - 2 * edge) / wide), 1 / 1.7), 1.7);
    fitted = Math.min((size.width - 2 * edge) / wide, (size.height - 2 * edge) / high / view.tall);
    view.x = (most[0] + most[1]) / 2; view.y = (most[2] + most[3]) / 2; view.scale = fitted;
  }
  const onScreen = (px, py) => [size.width / 2 + (px - view.x) * view.scale, size.height / 2 - (py - view.y) * view.scale * view.tall];
  const onMap = (sx, sy) => [view.x + (sx - size.width / 2) / view.scale, view.y - (sy - size.height / 2) / view.scale / view.tall];

  // ---- WebGL
  const canvas = $("points");
  const gl = canvas.getContext("webgl", { antialias: false, premultipliedAlpha: true });
  if (!gl) { trouble("This browser has no WebGL. Enable hardware acceleration, or use a picture of the map."); return null; }
  const program = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, `
    attribute vec2 place; attribute vec4 colour; attribute float weight;
    uniform vec2 middle, stretch; uniform float diameter, larger, pass;
    varying vec4 shade; varying float edge;
    void main() {
      bool mine = pass < 0.5 ? weight < 1.5 : weight > 1.5;
      gl_Position = mine ? vec4((place - middle) * stretch, 0.0, 1.0) : vec4(9.0, 9.0, 9.0, 1.0);
      gl_PointSize = (weight > 1.5 ? larger : diameter) + 1.0;
      edge = 1.0 / gl_PointSize;
      shade = colour;
    }`], [gl.FRAGMENT_SHADER, `
    precision mediump float; varying vec4 shade; varying float edge;
    void main() {
      float away = length(gl_PointCoord - 0.5);
      float cover = 1.0 - smoothstep(0.5 - 1.5 * edge, 0.5, away);
      gl_FragColor = vec4(shade.rgb, 1.0) * shade.a * cover;
    }`]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source); gl.compileShader(shader); gl.attachShader(program, shader);
  }
  gl.linkProgram(program); gl.useProgram(program);
  const buffers = {};
  function attribute(name, data, width, type, usage) {
    const at = gl.getAttribLocation(program, name);
    buffers[name] = buffers[name] || gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, data, usage || gl.DYNAMIC_DRAW);
    gl.enableVertexAttribArray(at);
    gl.vertexAttribPointer(at, width, type, type === gl.UNSIGNED_BYTE && width === 4, 0, 0);
  }
  const places = new Float32Array(2 * count);
  for (let i = 0; i < count; i++) { places[2 * i] = x[i]; places[2 * i + 1] = y[i]; }
  attribute("place", places, 2, gl.FLOAT, gl.STATIC_DRAW);
  const uniform = (name) => gl.getUniformLocation(program, name);
  const uniforms = { middle: uniform("middle"), stretch: uniform("stretch"), diameter: uniform("diameter"), larger: uniform("larger"), pass: uniform("pass") };
  gl.enable(gl.BLEND); gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);

  // ---- colours
  const style = (name) => getComputedStyle(canvas).getPropertyValue(name).trim();
  const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const ramp = map.ramp.map(rgb);
  function alongRamp(share) {
    const at = Math.min(Math.max(share, 0), 1) * (ramp.length - 1), low = Math.min(Math.floor(at), ramp.length - 2);
    return [0, 1, 2].map((k) => Math.round(ramp[low][k] + (at - low) * (ramp[low + 1][k] - ramp[low][k])));
  }
  const opacity = count < 3000 ? 0.92 : count < 30000 ? 0.78 : 0.62;
  const colours = new Uint8Array(4 * count), weights = new Uint8Array(count);
  let field = null, picked = null, found = null;  // found: a byte a point, or null without a search
  let stressed = 0;  // number of highlighted points
  const marks = { selected: null, lit: null };  // the same, set by the caller

  function paint() {
    const rest = rgb(style("--rest")), accent = rgb(style("--accent"));
    const table = field && field.kind === "category" ? field.colours.map(rgb) : null;
    const { selected, lit } = marks, any = found !== null || lit !== null, sought = any || selected !== null || picked !== null;
    stressed = 0;
    for (let i = 0; i < count; i++) {
      let colour = rest;
      if (table) { const code = field.codes[i]; colour = code < 0 ? rest : table[Math.min(code, table.length - 1)]; }
      else if (field && field.kind !== "plain") {
        const value = field.numbers[i];
        colour = none(value) ? rest : alongRamp(field.high > field.low ? (value - field.low) / (field.high - field.low) : 0.5);
      } else colour = accent;
      const here = (!any || (found && found[i]) || (lit && lit[i])) && (!selected || selected[i]) && (picked === null || shownCode(i) === picked);
      const faint = sought && !here;
      colours[4 * i] = colour[0]; colours[4 * i + 1] = colour[1]; colours[4 * i + 2] = colour[2];
      colours[4 * i + 3] = 255 * (faint ? 0.12 : sought ? 0.95 : table && field.codes[i] < 0 ? opacity * 0.55 : opacity);
      weights[i] = sought && here ? 2 : 1;
      stressed += weights[i] - 1;
    }
    attribute("colour", colours, 4, gl.UNSIGNED_BYTE);
    attribute("weight", weights, 1, gl.UNSIGNED_BYTE);
    draw();
  }
  const shownCode = (i) => field.codes[i] < 0 ? -1 : Math.min(field.codes[i], field.colours.length - 1);

  // ---- drawing
  let waiting = false;
  function draw() { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; frame(); }); } }
  function diameter() {
    const room = Math.sqrt(size.width * size.height / count);
    return Math.min(Math.max(room * 0.45, 2.6), 8) * Math.min(Math.pow(view.scale / fitted, 0.4), 5) * size.ratio;
  }
  function frame() {
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(0, 0, 0, 0); gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform2f(uniforms.middle, view.x, view.y);
    gl.uniform2f(uniforms.stretch, 2 * view.scale / size.width, 2 * view.scale * view.tall / size.height);
    const usual = diameter();
    gl.uniform1f(uniforms.diameter, usual);
    gl.uniform1f(uniforms.larger, Math.max(1.4 * usual, (stressed < 400 ? 7 : stressed < 4000 ? 5 : 0) * size.ratio));
    for (const pass of [0, 1]) { gl.uniform1f(uniforms.pass, pass); gl.drawArrays(gl.POINTS, 0, count); }
    underneath();
    names();
  }
  const over = $("names"), pen = over.getContext("2d");
  function measure(each) {  // once, when they are first shown
    const own = new Map(each.names.map((name) => [name.code, []]));
    for (let i = 0; i < count; i++) if (own.has(each.codes[i])) own.get(each.codes[i]).push(y[i]);
    for (const name of each.names) {
      const away = own.get(name.code).map((at) => Math.abs(at - name.y)).sort((one, other) => one - other);
      name.lines = wrapped(name.text); name.spread = away[away.length >> 1];  // median vertical distance of its points
    }
  }
  // Names of the field that colours the points; if it has none, those of the clusters, the first field.
  const named = () => field && field.names && field.names.length ? field : map.clusters ? map.fields[0] : null;
  function wrapped(name) {
    const lines = [""];
    for (const word of name.split(/\s+/)) {
      const last = lines[lines.length - 1];
      if (last && (last + " " + word).length > 22) lines.push(word); else lines[lines.length - 1] = (last + " " + word).trim();
    }
    if (lines.length > 2) { lines.length = 2; lines[1] += " …"; }
    return lines.map((line) => line.length > 34 ? line.slice(0, 33) + "…" : line);
  }
  function buttons() {  // areas without names
    const box = $("zoom");
    return [[box.offsetLeft + box.offsetWidth / 2, box.offsetTop + box.offsetHeight / 2, box.offsetWidth / 2 + 4, box.offsetHeight / 2 + 4]];
  }
  let ring = -1;  // the hovered or chosen point
  // Lines of equal density below the points, which contain a tenth, three tenths, … of the passages.
  let lines = null;
  function contours() {
    const held = [0.9, 0.7, 0.5, 0.3, 0.1], cells = 120, free = 6, whole = cells + 2 * free;
    const wide = Math.max(most[1] - most[0], 1e-3) / cells, high = Math.max(most[3] - most[2], 1e-3) / cells;
    const left = most[0] - free * wide, low = most[2] - free * high;
    let dense = new Float32Array(whole * whole);
    const cell = (i) => {
      const c = Math.floor((x[i] - left) / wide), r = Math.floor((y[i] - low) / high);
      return c >= 0 && r >= 0 && c < whole && r < whole ? r * whole + c : -1;
    };
    for (let i = 0; i < count; i++) { const at = cell(i); if (at >= 0) dense[at]++; }
    for (const [step, across] of [[1, whole], [whole, 1]])
      for (let times = 0; times < 3; times++) {  // three box filters of five approximate a Gaussian
        const next = new Float32Array(whole * whole);
        for (let one = 0; one < whole; one++)
          for (let at = 2; at < whole - 2; at++)
            for (let k = -2; k <= 2; k++) next[one * across + at * step] += dense[one * across + (at + k) * step] / 5;
        dense = next;
      }
    const stride = Math.max(1, Math.floor(count / 50000)), heights = [];
    for (let i = 0; i < count; i += stride) { const at = cell(i); heights.push(at < 0 ? 0 : dense[at]); }
    heights.sort((one, other) => other - one);
    const levels = [...new Set(held.map((share) => heights[Math.min(heights.length - 1, Math.floor(share * heights.length))]))].filter((level) => level > 0);
    return levels.map((level) => {
      const path = new Path2D();
      for (let r = 0; r + 1 < whole; r++) for (let c = 0; c + 1 < whole; c++) {
        const at = r * whole + c, corners = [dense[at], dense[at + 1], dense[at + whole + 1], dense[at + whole]], cuts = [];
        for (let k = 0; k < 4; k++) {  // marching squares: where the level crosses the four sides
          const from = corners[k], to = corners[(k + 1) % 4];
          if ((from < level) === (to < level)) continue;
          const share = (level - from) / (to - from), [dx, dy] = [[share, 0], [1, share], [1 - share, 1], [0, 1 - share]][k];
          cuts.push([left + (c + 0.5 + dx) * wide, low + (r + 0.5 + dy) * high]);
        }
        for (let k = 0; k + 1 < cuts.length; k += 2) { path.moveTo(...cuts[k]); path.lineTo(...cuts[k + 1]); }
      }
      return path;
    });
  }
  const below = made("canvas"), faint = below.getContext("2d");
  below.id = "contours"; below.setAttribute("aria-hidden", "true");
  canvas.before(below);
  function underneath() {
    faint.setTransform(1, 0, 0, 1, 0, 0);
    faint.clearRect(0, 0, below.width, below.height);
    if (count < 100) return;  // too few for a density
    lines = lines || contours();
    const [zeroX, zeroY] = onScreen(0, 0), far = size.ratio * view.scale;
    faint.strokeStyle = style("--soft"); faint.lineWidth = size.ratio;
    lines.forEach((line, k) => {
      const placed = new Path2D();
      placed.addPath(line, new DOMMatrix([far, 0, 0, -far * view.tall, zeroX * size.ratio, zeroY * size.ratio]));
      faint.globalAlpha = 0.16 + 0.07 * k;
      faint.stroke(placed);
    });
  }
  function names() {
    pen.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
    pen.clearRect(0, 0, size.width, size.height);
    const back = style("--back"), text = style("--text"), font = getComputedStyle(canvas).fontFamily, taken = buttons(), owner = named(), labels = owner ? owner.names : [];
    if (labels.length && !labels[0].lines) measure(owner);
    pen.textAlign = "center"; pen.textBaseline = "middle"; pen.lineJoin = "round";
    const largest = labels.length ? labels[0].size : 1;
    const room = Math.max(8, size.width * size.height / 18000);
    let written = 0;
    for (const label of labels) {
      if (written >= room) break;
      let [sx, sy] = onScreen(label.x, label.y);
      if (sx < 0 || sy < 0 || sx > size.width || sy > size.height) continue;
      const points = (size.width < 500 ? 11 : 12) + 4 * Math.sqrt(label.size / largest);
      pen.font = "600 " + points.toFixed(1) + "px " + font;
      const wide = Math.max(...label.lines.map((line) => pen.measureText(line).width)) / 2 + 5;
      const high = label.lines.length * points * 0.6 + 3;
      if (2 * label.spread * view.scale * view.tall < high) sy += sy > 3 * high ? -high - 4 : high + 4;  // it would hide its own points
      sy = Math.min(Math.max(sy, high), size.height - high);
      const left = Math.min(Math.max(sx, wide), size.width - wide);
      if (taken.some((box) => Math.abs(box[0] - left) < box[2] + wide && Math.abs(box[1] - sy) < box[3] + high)) continue;
      taken.push([left, sy, wide, high]); written++;
      pen.lineWidth = 3.5; pen.strokeStyle = back; pen.fillStyle = text; pen.globalAlpha = picked === null || owner !== field || picked === label.code ? 0.95 : 0.3;
      label.lines.forEach((line, k) => {
        const at = sy + (k - (label.lines.length - 1) / 2) * points * 1.15;
        pen.strokeText(line, left, at); pen.fillText(line, left, at);
      });
    }
    pen.globalAlpha = 1;
    if (ring >= 0) {
      const [sx, sy] = onScreen(x[ring], y[ring]);
      pen.beginPath(); pen.arc(sx, sy, diameter() / size.ratio / 2 + 4, 0, 7);
      pen.lineWidth = 4; pen.strokeStyle = back; pen.stroke();
      pen.lineWidth = 2; pen.strokeStyle = text; pen.stroke();
    }
    if (handlers.over) handlers.over(pen, { back, text });
  }
  function resized(keep) {
    const box = $("names").parentElement.getBoundingClientRect(), before = fitted;
    if (box.width < 2 || box.height < 2) return;  // hidden
    keep = keep && size.width > 1;  // it was visible before
    size.width = box.width; size.height = box.height; size.ratio = Math.min(devicePixelRatio || 1, 2);
    for (const each of [canvas, over, below]) { each.width = Math.round(box.width * size.ratio); each.height = Math.round(box.height * size.ratio); }
    const was = { ...view };
    fit();
    if (keep) { view.x = was.x; view.y = was.y; view.scale = was.scale * fitted / before; }
    draw();
  }

  // ---- the point under the pointer: a grid of about two points a cell
  const side = Math.max(1, Math.min(1024, Math.ceil(Math.sqrt(count / 2))));
  const unitX = Math.max(bounds[1] - bounds[0], 1e-3) / side, unitY = Math.max(bounds[3] - bounds[2], 1e-3) / side;
  const column = (px) => Math.min(side - 1, Math.max(0, Math.floor((px - bounds[0]) / unitX)));
  const row = (py) => Math.min(side - 1, Math.max(0, Math.floor((py - bounds[2]) / unitY)));
  const starts = new Uint32Array(side * side + 1), members = new Uint32Array(count);
  for (let i = 0; i < count; i++) starts[row(y[i]) * side + column(x[i]) + 1]++;
  for (let c = 0; c < side * side; c++) starts[c + 1] += starts[c];
  const filled = starts.slice();
  for (let i = 0; i < count; i++) members[filled[row(y[i]) * side + column(x[i])]++] = i;
  function under(sx, sy, reach) {
    const [mx, my] = onMap(sx, sy), radius = reach / view.scale, upwards = radius / view.tall;
    let best = -1, least = radius * radius;
    for (let r = row(my - upwards); r <= row(my + upwards); r++)
      for (let c = column(mx - radius); c <= column(mx + radius); c++)
        for (let at = starts[r * side + c]; at < starts[r * side + c + 1]; at++) {
          const i = members[at], away = (x[i] - mx) ** 2 + ((y[i] - my) * view.tall) ** 2;
          if (away < least && (found === null || found[i]) && (picked === null || shownCode(i) === picked)) { least = away; best = i; }
        }
    return best;
  }

  // ---- the description of a point
  function valueOf(each, i) {
    if (each.kind === "category") return each.codes[i] < 0 ? null : each.values[each.codes[i]];
    const value = each.numbers ? each.numbers[i] : null;
    return none(value) ? null : each.kind === "date" ? dayOf(value) : String(value);
  }
  const dayOf = (days) => new Date(Math.round(days * 864e5)).toISOString().slice(0, 10);
  function describe(box, i) {
    box.replaceChildren();
    if (map.title[i]) box.append(made("strong", map.title[i]));
    if (map.text) box.append(made("p", map.text[i]));
    const list = made("dl");
    for (const each of map.fields) {
      const value = valueOf(each, i);
      if (value !== null) list.append(made("dt", each.name), made("dd", value));
    }
    list.append(made("dt", "document"), made("dd", map.id[i]));
    box.append(list);
  }
  let chosen = -1;
  function choose(i, centre) {
    const other = i !== chosen;
    chosen = ring = i;
    $("hint").hidden = true;
    $("card").hidden = i < 0;
    if (i >= 0) {
      describe($("card"), i);
      const close = made("button", "×", "close");
      close.setAttribute("aria-label", "Close"); close.addEventListener("click", () => choose(-1));
      $("card").append(close);
      if (centre) { view.scale = Math.max(view.scale, 4 * fitted); view.x = x[i]; view.y = y[i]; }
    }
    if (other && handlers.chosen) handlers.chosen(i);
    draw();
  }
  function hover(i, sx, sy) {
    const next = i >= 0 ? i : chosen;
    if (ring !== next) { ring = next; draw(); }
    canvas.classList.toggle("over", i >= 0);
    const hint = $("hint");
    hint.hidden = i < 0;
    if (i < 0) return;
    describe(hint, i);
    const wide = hint.offsetWidth, high = hint.offsetHeight;
    hint.style.left = Math.max(4, sx + 16 + wide > size.width ? sx - 16 - wide : sx + 16) + "px";
    hint.style.top = Math.max(4, Math.min(sy + 16, size.height - high - 4)) + "px";
  }

  // ---- moving about
  function zoom(factor, sx, sy) {
    const [mx, my] = onMap(sx, sy);
    view.scale = Math.min(Math.max(view.scale * factor, fitted * 0.2), fitted * 400);
    view.x = mx - (sx - size.width / 2) / view.scale; view.y = my + (sy - size.height / 2) / view.scale / view.tall;
    hover(-1); draw();
  }
  const held = new Map();
  let moved = 0, taken = null;  // taken: the handler of this drag: move(place), done(), drop()
  const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId); held.set(event.pointerId, at(event)); moved = held.size > 1 ? 99 : 0;
    if (held.size > 1) { if (taken) { taken.drop(); taken = null; draw(); } } else taken = handlers.drag ? handlers.drag(event, at(event)) : null;
  });
  canvas.addEventListener("pointermove", (event) => {
    const [sx, sy] = at(event), before = held.get(event.pointerId);
    if (!before) { if (event.pointerType !== "touch") hover(under(sx, sy, 12), sx, sy); return; }
    if (held.size === 1) {
      moved += Math.abs(sx - before[0]) + Math.abs(sy - before[1]);
      if (moved > 4 && taken) { hover(-1); taken.move([sx, sy]); draw(); }
      else if (moved > 4) {
        canvas.classList.add("held"); hover(-1);
        view.x -= (sx - before[0]) / view.scale; view.y += (sy - before[1]) / view.scale / view.tall; draw();
      }
    } else {
      const other = [...held].find(([id]) => id !== event.pointerId)[1];
      const was = Math.hypot(before[0] - other[0], before[1] - other[1]), is = Math.hypot(sx - other[0], sy - other[1]);
      view.x -= (sx - before[0]) / 2 / view.scale; view.y += (sy - before[1]) / 2 / view.scale / view.tall;
      zoom(is / Math.max(was, 1), (sx + other[0]) / 2, (sy + other[1]) / 2);
    }
    held.set(event.pointerId, [sx, sy]);
  });
  for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, (event) => {
    const was = held.delete(event.pointerId), taker = taken;
    canvas.classList.remove("held");
    if (taker) {
      taken = null;
      if (kind === "pointerup" && moved > 4) { taker.done(); draw(); return; }
      taker.drop(); draw();
    }
    if (was && kind === "pointerup" && moved <= 4) choose(under(...at(event), event.pointerType === "touch" ? 24 : 12));
  });
  canvas.addEventListener("pointerleave", () => { if (!held.size) hover(-1); });
  canvas.addEventListener("wheel", (event) => {
    if (handlers.wheel && !handlers.wheel(event)) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), ...at(event));
  }, { passive: false });
  canvas.addEventListener("dblclick", (event) => zoom(2, ...at(event)));
  const middle = () => [size.width / 2, size.height / 2];
  $("in").addEventListener("click", () => zoom(1.6, ...middle()));
  $("out").addEventListener("click", () => zoom(1 / 1.6, ...middle()));
  $("all").addEventListener("click", () => { fit(); draw(); });
  const steps = { ArrowLeft: [-60, 0], ArrowRight: [60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
  canvas.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (step) { view.x += step[0] / view.scale; view.y += step[1] / view.scale / view.tall; hover(-1); draw(); }
    else if (event.key === "+" || event.key === "=") zoom(1.4, ...middle());
    else if (event.key === "-") zoom(1 / 1.4, ...middle());
    else if (event.key === "0") { fit(); draw(); }
    else if (event.key === "Enter") choose(under(...middle(), Math.max(size.width, size.height)));
    else return;
    event.preventDefault(); event.stopPropagation();
  });
  function escape() { if (chosen >= 0) choose(-1); else if (!handlers.escape || !handlers.escape()) pick(null); }

  // ---- searching
  let hay = null, later = 0;
  function haystack() {
    if (hay) return hay;
    hay = new Array(count);
    for (let i = 0; i < count; i++)
      hay[i] = (map.title[i] + "\n" + (map.text ? map.text[i] : "") + "\n" + map.id[i] + "\n" + map.fields.map((each) => valueOf(each, i) || "").join("\n")).toLowerCase();
    return hay;
  }
  function search() {
    const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean), list = $("results");
    list.replaceChildren();
    if (!words.length) { found = null; $("found").textContent = ""; list.hidden = true; paint(); return; }
    const texts = haystack(), first = [];
    let hits = 0;
    found = new Uint8Array(count);
    for (let i = 0; i < count; i++)
      if (words.every((word) => texts[i].includes(word))) { found[i] = 1; hits++; if (first.length < 50) first.push(i); }
    $("found").textContent = hits.toLocaleString("en") + " of " + count.toLocaleString("en") + " passages" + (hits > 50 ? "; the first 50:" : "");
    for (const i of first) {
      const button = made("button", map.title[i] || (map.text && map.text[i]) || map.id[i]);
      button.addEventListener("click", () => choose(i, true));
      list.append(made("li")); list.lastChild.append(button);
    }
    list.hidden = !first.length;
    paint();
  }
  $("search").addEventListener("input", () => { clearTimeout(later); later = setTimeout(search, count > 20000 ? 250 : 80); });

  // ---- colour menu and legend
  for (const [k, each] of map.fields.entries()) { const option = made("option", each.name); option.value = k; $("colour").append(option); }
  const plain = made("option", "nothing"); plain.value = -1; $("colour").append(plain);
  function pick(code) {
    picked = picked === code ? null : code;
    for (const button of $("legend").querySelectorAll("button")) button.setAttribute("aria-pressed", String(Number(button.dataset.code) === picked));
    paint();
  }
  function legend() {
    const box = $("legend");
    box.replaceChildren();
    $("legend-box").hidden = !field;
    if (!field) return;
    if (field.kind !== "category") {
      const bar = made("div", "", "bar"), ends = made("div", undefined, "ends");
      bar.style.background = "linear-gradient(to right, " + map.ramp.join(", ") + ")";
      const shown = (value) => field.kind === "date" ? dayOf(value) : numberText(value);
      ends.append(made("span", (field.below ? "≤ " : "") + shown(field.low)), made("span", (field.above ? "≥ " : "") + shown(field.high)));
      box.append(bar, ends);
      return;
    }
    const sizes = new Array(field.colours.length + 1).fill(0);
    for (let i = 0; i < count; i++) sizes[shownCode(i) + 1]++;
    const entries = field.colours.map((colour, code) => [code, colour, field.shown[code]]);
    if (sizes[0]) entries.push([-1, style("--rest"), field.missing]);
    for (const [code, colour, name] of entries) {
      if (!sizes[code + 1]) continue;
      const button = made("button"), dot = made("span", "", "dot");
      button.dataset.code = code; button.setAttribute("aria-pressed", "false");
      dot.style.background = colour;
      button.append(dot, made("span", name, "name"), made("span", sizes[code + 1].toLocaleString("en"), "count"));
      button.addEventListener("click", () => pick(code));
      box.append(button);
    }
  }
  function numberText(value) {
    const far = Math.abs(value);
    if (value && (far >= 1e15 || far < 1e-4)) return value.toExponential(3);
    const digits = Number.isInteger(value) ? {} : { maximumSignificantDigits: 6 };
    return value.toLocaleString("en", { useGrouping: far >= 10000, ...digits });
  }
  function colourBy(k) { field = k < 0 ? null : map.fields[k]; picked = null; legend(); paint(); }
  $("colour").addEventListener("change", () => colourBy(Number($("colour").value)));

  // ---- begin
  $("colour").value = map.chosen;
  resized(false);
  colourBy(map.chosen);
  const watching = new ResizeObserver(() => resized(true));
  watching.observe($("names").parentElement);
  let ended = false;
  canvas.addEventListener("webglcontextlost", () => { if (!ended) trouble("The WebGL context was lost. Reload the page."); });
  return {
    x, y, view, canvas, onMap, onScreen, draw, paint, marks, escape, choose, colourBy,
    restyle() { legend(); paint(); },  // after a change between light and dark
    end() { ended = true; watching.disconnect(); clearTimeout(later); const lost = gl.getExtension("WEBGL_lose_context"); if (lost) lost.loseContext(); },
  };
}
