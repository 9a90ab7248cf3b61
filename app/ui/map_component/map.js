// The map view: drawn by the shared script, with selection tools; sends selections to Python.
const views = new WeakMap();  // by shadow root
const left = new Map();  // the last state of each map, by key

export default function ({ data, parentElement: root, setStateValue }) {
  let own = views.get(root), board = root.getElementById("map");
  if (own && (own.board !== board || own.of !== data.of)) {
    own.end();
    if (own.board === board) { board = own.untouched.cloneNode(true); own.board.replaceWith(board); }
    own = undefined;
  }
  if (!own) { own = createView(root, board, data); views.set(root, own); }
  own.tell = setStateValue;
  own.update(data);
  const call = ++own.calls;  // cleaning up an earlier call must not end a later one's view
  return () => { if (own.calls === call) { own.end(); if (views.get(root) === own) views.delete(root); } };
}

function createView(root, board, data) {
  const $ = (id) => root.getElementById(id);
  const own = { board, untouched: board.cloneNode(true), of: data.of, tell: () => {}, calls: 0, ended: false };
  let shown = null, tool = "move", outline = [], drawing = [], last = data, lit = null, dark = null, hinting = 0;

  own.update = (next) => {
    last = next;
    board.style.setProperty("--height", next.height + "px");
    const was = dark;
    dark = isDark(board);
    board.classList.toggle("dark", dark);
    if (!shown) return;
    const now = JSON.stringify(next.lit);
    if (now !== lit) { lit = now; light(next.lit); shown.paint(); }
    if (was !== dark) shown.restyle(); else shown.draw();
  };
  own.end = () => {
    if (own.ended) return;
    own.ended = true;
    clearTimeout(hinting);
    if (shown) { left.set(data.key, { of: data.of, view: { ...shown.view }, colour: $("colour")?.value }); shown.end(); }
  };

  function light(places) {
    shown.marks.lit = places === null ? null : new Uint8Array(shown.x.length);
    for (const place of places ?? []) shown.marks.lit[place] = 1;
    board.dataset.lit = places === null ? "" : String(places.length);
  }
  function select(corners, tell) {
    outline = corners;
    const found = corners.length ? insideOf(corners, shown.x, shown.y) : null;
    const count = found ? found.reduce((sum, each) => sum + each, 0) : 0;
    shown.marks.selected = count ? found : null;
    if (!count) outline = [];
    $("count").textContent = found ? count.toLocaleString("en") + " selected" : "";
    $("clear").hidden = !outline.length;
    shown.paint();
    if (tell) own.tell("selection", outline.length ? { of: data.of, outline } : null);
  }
  function clear() {
    if (!outline.length) return false;
    select([], true);
    shown.canvas.focus();
    return true;
  }
  function use(name) {
    tool = name;
    $("stage").dataset.tool = name;
    for (const button of $("tools").children) button.setAttribute("aria-pressed", String(button.dataset.tool === name));
  }

  const told = {
    chosen: (i) => own.tell("chosen", i < 0 ? null : { of: data.of, place: i }),
    drag(event, place) {
      const kind = event.shiftKey && tool === "move" ? "box" : tool;
      if (kind === "move") return null;
      return outlining(kind, place, () => shown, (corners) => { drawing = corners; }, (corners) => select(corners, true));
    },
    over(pen, colours) {
      if (!shown) return;
      const line = getComputedStyle(board).getPropertyValue("--accent").trim() || colours.text;
      trace(pen, drawing.length ? drawing : outline, shown.onScreen, line);
    },
    wheel(event) {  // otherwise the wheel scrolls the page
      if (event.ctrlKey || event.metaKey || root.activeElement === shown.canvas) return true;
      $("wheel").hidden = false;
      clearTimeout(hinting);
      hinting = setTimeout(() => { $("wheel").hidden = true; }, 1500);
      return false;
    },
    escape: clear,
  };

  const wait = shelf.kept.get(data.of) ?? new Promise((tell) => {
    shelf.awaited.set(data.of, [...(shelf.awaited.get(data.of) ?? []), tell]);
  });
  wait.then((map) => {
    if (own.ended) return;
    if (!map.text) $("search").title = "With this many passages, only titles and metadata are searched";
    if (board.clientWidth <= 760) $("legend-box").open = false;
    dark = isDark(board); board.classList.toggle("dark", dark);
    shown = mapView(root, map, told);
    if (!shown) return;
    const was = left.get(data.key);
    if (was && was.of === data.of) {
      Object.assign(shown.view, was.view);
      if (was.colour) { $("colour").value = was.colour; shown.colourBy(Number(was.colour)); }
    }
    lit = JSON.stringify(last.lit); light(last.lit);
    use("move");
    select(last.outline, false);
    board.dataset.ready = data.of;
  }).catch((error) => {
    $("trouble").textContent = "This browser cannot show the map. Use one from 2023 or later. (" + error.message + ")";
    $("trouble").hidden = false;
  });

  for (const button of $("tools").children) button.addEventListener("click", () => use(button.dataset.tool));
  $("clear").addEventListener("click", clear);
  const keys = { m: "move", l: "lasso", b: "box" };
  board.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    event.stopPropagation();  // letters are Streamlit's shortcuts
    if (!shown) return;
    if (event.key === "Escape") { if (root.activeElement !== $("search")) shown.escape(); }
    else if (keys[event.key] && root.activeElement === shown.canvas) use(keys[event.key]);
  });
  return own;
}

function isDark(board) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.fillStyle = getComputedStyle(board).getPropertyValue("--st-background-color").trim() || "#ffffff";
  pen.fillRect(0, 0, 1, 1);
  const [red, green, blue] = pen.getImageData(0, 0, 1, 1).data;
  return 0.299 * red + 0.587 * green + 0.114 * blue < 128;
}
