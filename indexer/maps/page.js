// The page: unpack the data and draw the map.
(async () => {
  const $ = (id) => document.getElementById(id);
  let map;
  try {
    const packed = Uint8Array.from(atob($("data").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    map = JSON.parse(await new Response(stream).text());
  } catch (error) {
    $("trouble").textContent = "This browser cannot unpack the map: use one from 2023 or later. (" + error.message + ")";
    $("trouble").hidden = false;
    return;
  }
  $("data").remove();
  $("title").textContent = map.collection;
  $("about").textContent = map.about;
  for (const note of map.notes) {
    const item = document.createElement("li");
    item.textContent = note;
    $("notes").append(item);
  }
  if (matchMedia("(max-width: 720px)").matches) $("legend-box").open = false;
  const shown = mapView(document, map);
  if (!shown) return;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown.restyle());
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") shown.escape(); });
  document.body.dataset.ready = "yes";
})();
