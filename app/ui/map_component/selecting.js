// Lasso and box: an outline in the map's units, drawn over it, and the points inside.
const mostCorners = 300;
// The same algorithm as `inside` in show_map.py, so that both select the same points.
function insideOf(outline, x, y) {
  const found = new Uint8Array(x.length);
  if (outline.length < 3) return found;
  const xs = outline.map((corner) => corner[0]), ys = outline.map((corner) => corner[1]);
  const low = [Math.min(...xs), Math.min(...ys)], high = [Math.max(...xs), Math.max(...ys)];
  for (let i = 0; i < x.length; i++) {
    if (x[i] < low[0] || x[i] > high[0] || y[i] < low[1] || y[i] > high[1]) continue;
    let winding = 0;
    for (let k = 0; k < outline.length; k++) {
      const [x0, y0] = outline[k], [x1, y1] = outline[(k + 1) % outline.length];
      const left = (x1 - x0) * (y[i] - y0) - (x[i] - x0) * (y1 - y0);
      if (y0 <= y[i] && y1 > y[i] && left > 0) winding++;
      else if (y0 > y[i] && y1 <= y[i] && left < 0) winding--;
    }
    found[i] = winding !== 0 ? 1 : 0;
  }
  return found;
}
// A drag that draws an outline, from a screen position; done(outline) gets its corners in map units.
function outlining(kind, begun, view, drawn, done) {
  let path = [begun];
  const corners = () => kind === "lasso" ? path : [path[0], [path.at(-1)[0], path[0][1]], path.at(-1), [path[0][0], path.at(-1)[1]]];
  const tell = () => drawn(corners().map(([sx, sy]) => view().onMap(sx, sy)));
  return {
    move(place) {
      const [sx, sy] = path.at(-1);
      if (kind === "box") path = [path[0], place];
      else if (Math.hypot(place[0] - sx, place[1] - sy) >= 3) path.push(place);
      tell();
    },
    done() {
      const every = Math.ceil(path.length / mostCorners);
      path = path.filter((_, k) => k % every === 0 || k === path.length - 1);
      const outline = path.length > 1 ? corners().map(([sx, sy]) => view().onMap(sx, sy)) : [];
      drawn([]);
      done(outline);
    },
    drop() { drawn([]); },
  };
}
function trace(pen, outline, onScreen, colour) {
  if (outline.length < 2) return;
  pen.beginPath();
  for (const [mx, my] of outline) pen.lineTo(...onScreen(mx, my));
  pen.closePath();
  pen.globalAlpha = 0.1; pen.fillStyle = colour; pen.fill();
  pen.globalAlpha = 1; pen.lineWidth = 2; pen.strokeStyle = colour; pen.setLineDash([6, 4]); pen.stroke(); pen.setLineDash([]);
}
