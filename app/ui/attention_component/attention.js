// The attention view. Layers, heads and the drawn share change here without a rerun; what Python needs to know
// (the chosen token, masks, layers that were not sent) goes there as state.
const views = new WeakMap();  // by shadow root
const left = new Map();  // the last state of each view, by key

export default function ({ data, parentElement: root, setStateValue }) {
  let own = views.get(root);
  const board = root.getElementById("inside");
  if (own && own.board !== board) { own.end(); own = undefined; }
  if (!own) { own = createView(root, board, data.key); views.set(root, own); }
  own.tell = setStateValue;
  own.update(data);
  const call = ++own.calls;  // cleaning up an earlier call must not end a later one's view
  return () => { if (own.calls === call) { own.end(); if (views.get(root) === own) views.delete(root); } };
}

function createView(root, board, key) {
  const $ = (id) => root.getElementById(id);
  const own = { board, tell: () => {}, calls: 0 };
  const canvas = $("lines"), pen = canvas.getContext("2d");
  let data = null, weights = null, mixed = null, shown = [], edges = [], cells = [], dark = false, told = "", waiting = 0;
  let choice = { layers: [], heads: [], place: null, side: "from", threshold: 70, special: true };
  let over = null;  // the token under the pointer: { side, place }
  let at = {};  // where things are drawn, pixels

  own.update = (next) => {
    const other = !data || data.of !== next.of, changed = !data || data.version !== next.version;
    data = next;
    board.style.setProperty("--height", data.height + "px");
    const was = dark;
    dark = isDark(board);
    board.classList.toggle("dark", dark);
    if (changed) weights = numbers(data.weights);
    if (other) {
      const before = left.get(key);
      const kept = before && before.total === data.total && before.headsOf === data.heads ? before : null;
      choice = { ...choice, layers: kept ? kept.layers : [data.start], heads: kept ? kept.heads : range(data.heads),
        place: kept && kept.of === data.of ? kept.place : null, side: kept ? kept.side : "from" };
    }
    if (data.follow) { choice = { ...choice, ...data.follow }; $("special").checked = choice.special; }
    if (changed) { buttons(); tokens(); words(); }
    if (changed || data.follow || was !== dark) refresh();
    board.dataset.version = data.version;
  };
  own.end = () => { watch.disconnect(); clearTimeout(waiting); remember(); };

  function remember() {
    if (data) left.set(key, { of: data.of, total: data.total, headsOf: data.heads, layers: choice.layers, heads: choice.heads, place: choice.place, side: choice.side });
  }
  function tell() {  // debounced, so that a double click causes one rerun
    remember();
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const said = { of: data.of, layers: choice.layers, heads: choice.heads, place: choice.place, special: choice.special };
      if (JSON.stringify(said) !== told) { told = JSON.stringify(said); own.tell("choice", said); }
    }, 250);
  }

  function buttons() {
    for (const [id, count, what] of [["layers", data.total, "layer"], ["heads", data.heads, "head"]]) {
      const all = document.createElement("button");
      all.textContent = "all";
      all.addEventListener("click", () => { choice[id] = range(count); tell(); refresh(); });
      const every = range(count).map((number) => {
        const button = document.createElement("button");
        button.textContent = String(number + 1);
        button.setAttribute("aria-label", what + " " + (number + 1));
        button.addEventListener("click", () => { choice[id] = pressed(choice[id], number, count); tell(); refresh(); });
        return button;
      });
      $(id).replaceChildren(...every, all);
    }
  }
  function pressed(chosen, number, count) {  // from "all", a click selects one; then each click toggles
    if (chosen.length === count) return [number];
    const rest = chosen.filter((each) => each !== number);
    if (rest.length === chosen.length) return [...chosen, number].sort((a, b) => a - b);
    return rest.length ? rest : range(count);
  }

  function tokens() {
    const row = data.tokens.length > 60 ? 17 : 24;
    board.style.setProperty("--row", row + "px");
    board.style.setProperty("--size", (row > 20 ? 14 : 12) + "px");
    for (const side of ["from", "to"]) {
      $(side).replaceChildren(...data.tokens.map((token, place) => {
        const item = document.createElement("li"), button = document.createElement("button");
        button.textContent = token.text;
        button.className = token.special ? "special" : token.masked ? "masked" : "";
        button.dataset.place = String(place);
        button.addEventListener("pointerenter", () => { over = { side, place }; paint(); });
        button.addEventListener("pointerleave", () => { over = null; $("hint").hidden = true; paint(); });
        button.addEventListener("focus", () => { over = { side, place }; paint(); });
        button.addEventListener("blur", () => { over = null; paint(); });
        button.addEventListener("click", (event) => { if (event.detail < 2) freeze(side, place); });
        button.addEventListener("dblclick", () => mask(place));
        button.addEventListener("keydown", (event) => {
          if (event.ctrlKey || event.metaKey || event.altKey) return;
          event.stopPropagation();  // letters are Streamlit's shortcuts
          if (event.key === "m") mask(place);
          if (event.key === "Escape") release();
        });
        item.append(button);
        return item;
      }));
    }
  }
  function freeze(side, place) {
    const same = choice.place === place && choice.side === side;
    choice = { ...choice, place: same ? null : place, side };
    tell();
    paint();
  }
  function release() { choice.place = null; tell(); paint(); }
  function mask(place) {
    if (data.tokens[place].special || data.follow) return;
    choice.place = place;
    const now = data.tokens.flatMap((token, at) => ((at === place) !== Boolean(token.masked) ? [at] : []));
    clearTimeout(waiting);
    remember();
    own.tell("masked", { of: data.of, places: now });
  }

  function words() {
    $("words").replaceChildren(...data.words.map(({ token, words: likely }) => {
      const line = document.createElement("p"), masked = document.createElement("b");
      masked.textContent = token;
      line.append("Predictions for ", masked, ":");
      likely.forEach(([word, probability], k) => {
        const one = document.createElement("span"), share = document.createElement("small");
        share.textContent = " " + (100 * probability).toFixed(probability < 0.1 ? 1 : 0) + " %";
        one.append(word, share);
        line.append(k ? ", " : " ", one);
      });
      return line;
    }));
  }

  function refresh() {  // the mean over the chosen heads, the lines, and the bars beside the tokens
    for (const [id, chosen] of [["layers", choice.layers], ["heads", choice.heads]]) {
      [...$(id).children].forEach((button, number) => {
        const all = number === $(id).children.length - 1;
        button.setAttribute("aria-pressed", String(all ? chosen.length === number : chosen.includes(number)));
      });
    }
    const sent = choice.layers.filter((layer) => data.layers.includes(layer));
    if (sent.length < choice.layers.length) { tell(); if (!sent.length) { board.dataset.waits = "1"; return; } }
    delete board.dataset.waits;
    const n = data.tokens.length, square = n * n;
    mixed = new Float32Array(square);
    const columns = [];
    shown = range(n).filter((place) => choice.special || !data.tokens[place].special);
    for (const layer of sent) {
      for (const head of choice.heads) {
        const begin = (data.layers.indexOf(layer) * data.heads + head) * square;
        const most = new Float32Array(n), given = new Float32Array(n);
        for (let i = 0; i < square; i++) mixed[i] += weights[begin + i];
        for (const i of shown) for (const j of shown) {
          const weight = weights[begin + i * n + j];
          if (weight > most[i]) most[i] = weight;
          given[j] += weight / shown.length;
        }
        columns.push({ name: `layer ${layer + 1}, head ${head + 1}`, most, given });
      }
    }
    const count = Math.max(columns.length, 1);
    for (let i = 0; i < square; i++) mixed[i] /= count;
    cells = columns;
    edges = [];
    for (const i of shown) {
      const to = shown.map((j) => [j, mixed[i * n + j]]).sort((a, b) => b[1] - a[1]);
      const wanted = (choice.threshold / 100) * to.reduce((sum, each) => sum + each[1], 0);
      let sum = 0;
      for (const [j, weight] of to) {
        if (sum >= wanted - 1e-6 || weight <= 0) break;
        sum += weight;
        edges.push([i, j, weight]);
      }
    }
    for (const side of ["from", "to"]) [...$(side).children].forEach((item, place) => { item.hidden = !shown.includes(place); });
    $("share").textContent = choice.threshold + " %";
    layout();
    paint();
    board.dataset.edges = String(edges.length);
    board.dataset.columns = String(columns.length);
  }

  function layout() {
    const wide = Math.max(board.clientWidth - 2, 320), row = data.tokens.length > 60 ? 17 : 24;
    const names = Math.min(Math.max(70, 9 * Math.max(...data.tokens.map((token) => token.text.length)) + 14), wide * 0.2);
    const shares = wide > 640 ? data.shares : [];
    const bars = Math.min(70, (wide * 0.26) / Math.max(shares.length, 1));
    const cell = Math.min(11, (wide * 0.14) / Math.max(cells.length, 1));
    const side = cell * cells.length;
    at = { row, cell, side, bars, shares, names, wide, tall: 22 + row * shown.length + 4,
      from: 6 + side, to: wide - 10 - bars * shares.length - side - names };
    for (const [id, x] of [["from", at.from], ["to", at.to]]) { $(id).style.left = x + "px"; $(id).style.width = names + "px"; }
    $("graph").style.height = at.tall + "px";
    const dense = at.tall > 8000 ? 1 : Math.min(window.devicePixelRatio || 1, 2);
    canvas.width = wide * dense; canvas.height = at.tall * dense;
    canvas.style.width = wide + "px"; canvas.style.height = at.tall + "px";
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    const titles = [["strongest", 6, Math.max(side, 70)], ["received", at.to + names, Math.max(side, 60)],
      ...shares.map((share, k) => [share.name, wide - 4 - bars * (shares.length - k), bars - 4])];
    $("titles").replaceChildren(...titles.map(([text, x, width]) => {
      const title = document.createElement("span");
      title.textContent = text; title.style.left = x + "px"; title.style.maxWidth = width + "px";
      return title;
    }));
  }

  function paint() {
    if (!mixed) return;
    const style = getComputedStyle(board), accent = style.getPropertyValue("--accent").trim(), other = style.getPropertyValue("--other").trim();
    const line = style.getPropertyValue("--line").trim(), n = data.tokens.length;
    const focus = over ?? (choice.place === null ? null : { side: choice.side, place: choice.place });
    const y = new Map(shown.map((place, k) => [place, 22 + at.row * (k + 0.5)]));
    pen.clearRect(0, 0, at.wide, at.tall);
    const begin = at.from + at.names + 3, end = at.to - 3;
    let drawn = 0;
    const strongest = edges.reduce((most, each) => Math.max(most, each[2]), 1e-6);
    for (const [i, j, absolute] of edges) {
      const weight = absolute / strongest;
      const mine = !focus || (focus.side === "from" ? i : j) === focus.place;
      if (!mine) continue;
      drawn++;
      pen.strokeStyle = accent;
      pen.globalAlpha = Math.min(1, (focus ? 0.25 : 0.08) + weight * (focus ? 0.9 : 0.75));
      pen.lineWidth = 0.6 + 3.5 * weight;
      pen.beginPath();
      pen.moveTo(begin, y.get(i));
      const middle = (begin + end) / 2;
      pen.bezierCurveTo(middle, y.get(i), middle, y.get(j), end, y.get(j));
      pen.stroke();
    }
    board.dataset.drawn = String(drawn);
    const alike = cells.length ? cells.map((column) => Math.max(1e-6, ...shown.map((place) => column.given[place]))) : [];
    for (const place of shown) {
      const top = y.get(place) - at.row / 2 + 2;
      cells.forEach((column, k) => {
        pen.fillStyle = accent;
        pen.globalAlpha = column.most[place];
        pen.fillRect(6 + k * at.cell, top, Math.max(at.cell - 1, 0.5), at.row - 4);
        pen.globalAlpha = column.given[place] / alike[k];
        pen.fillRect(at.to + at.names + 2 + k * at.cell, top, Math.max(at.cell - 1, 0.5), at.row - 4);
      });
      at.shares.forEach((share, k) => {
        const x = at.wide - 4 - at.bars * (at.shares.length - k), most = Math.max(1e-9, ...share.values.map(Math.abs));
        const value = share.values[place];
        pen.globalAlpha = 1;
        pen.fillStyle = line;
        pen.fillRect(x, top, 1, at.row - 4);
        pen.globalAlpha = 0.8;
        pen.fillStyle = value < 0 ? other : accent;
        pen.fillRect(x + 1, top + 2, ((at.bars - 8) * Math.abs(value)) / most, at.row - 8);
      });
    }
    pen.globalAlpha = 1;
    for (const side of ["from", "to"]) {
      for (const item of $(side).children) {
        const button = item.firstChild, place = Number(button.dataset.place);
        const weight = !focus || focus.side === side ? 0 : focus.side === "from" ? mixed[focus.place * n + place] : mixed[place * n + focus.place];
        button.style.background = weight > 0.004 ? `color-mix(in srgb, ${accent} ${Math.min(70, 100 * weight).toFixed(0)}%, transparent)` : "";
        const held = choice.place === place && choice.side === side;
        button.setAttribute("aria-pressed", String(held));
        if (focus && focus.place === place && focus.side === side && over) hint(button, side, place);
      }
    }
    $("release").hidden = choice.place === null;
    board.dataset.frozen = choice.place === null ? "" : String(choice.place);
  }
  function hint(button, side, place) {
    const told = data.shares.map((share) => `${share.name} ${share.values[place].toFixed(3)}`);
    const n = data.tokens.length, best = side === "from" ? shown.reduce((a, b) => (mixed[place * n + b] > mixed[place * n + a] ? b : a), shown[0]) : null;
    if (best !== null) told.unshift(`most to ${data.tokens[best].text} ${mixed[place * n + best].toFixed(2)}`);
    $("hint").textContent = told.join(" · ");
    $("hint").hidden = !told.length;
    const top = button.parentElement.offsetTop + 22 + at.row;
    $("hint").style.top = (top + 26 > at.tall && top > 60 ? top - at.row - 28 : top + 2) + "px";
    $("hint").style.left = Math.max(4, Math.min(at.wide - $("hint").offsetWidth - 6, side === "from" ? at.from : at.to - 60)) + "px";
  }

  $("threshold").addEventListener("input", () => { choice.threshold = Number($("threshold").value); refresh(); });
  $("special").addEventListener("change", () => { choice.special = $("special").checked; tell(); refresh(); });
  $("release").addEventListener("click", release);
  const watch = new ResizeObserver(() => { if (data && mixed && Math.abs(board.clientWidth - 2 - at.wide) > 1) { layout(); paint(); } });
  watch.observe(board);
  return own;
}

function range(count) { return Array.from({ length: count }, (_, number) => number); }

function numbers(text) {  // base64 of little-endian 16-bit shares of 65535
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer), found = new Float32Array(bytes.length / 2);
  for (let i = 0; i < found.length; i++) found[i] = view.getUint16(2 * i, true) / 65535;
  return found;
}

function isDark(board) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.fillStyle = getComputedStyle(board).getPropertyValue("--st-background-color").trim() || "#ffffff";
  pen.fillRect(0, 0, 1, 1);
  const [red, green, blue] = pen.getImageData(0, 0, 1, 1).data;
  return 0.299 * red + 0.587 * green + 0.114 * blue < 128;
}
