// Shared by the two components: promises of the points, by digest.
const shelf = (globalThis[Symbol.for("nearsay.maps")] ??= { kept: new Map(), awaited: new Map() });
