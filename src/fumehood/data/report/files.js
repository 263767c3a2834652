// What each phase left behind, and what was read outside the workspace.

function octal(mode) {
  return code(typeof mode === "number" ? mode.toString(8).padStart(4, "0") : mode);
}

function fileColumns() {
  return [
    ["Path", (row) => code(get(row.detail, "path"))],
    ["What", (row) => row.type.slice("filesystem.".length)],
    ["Kind", (row) => plain(get(row.detail, "kind") ?? before(row.detail, "kind"))],
    ["Mode", (row) => changed(before(row.detail, "mode"), get(row.detail, "mode"), octal)],
    ["Size", (row) => changed(before(row.detail, "size"), get(row.detail, "size"), (value) => bytes(value)), "number"],
    ["SHA-256", (row) => changed(before(row.detail, "sha256"), get(row.detail, "sha256"), digest)],
    ["Note", (row) => shown([get(row.detail, "link") ? `→ ${get(row.detail, "link")}` : "", get(row.detail, "note") ?? "", get(row.detail, "holds") ? `holds ${count(get(row.detail, "holds"))}` : ""].filter(Boolean).join("; "))],
  ];
}

function readColumns() {
  return [
    ["Path", (row) => code(get(row.detail, "path"))],
    ["Phase", (row) => row.phase],
    ["How", (row) => shown(get(row.detail, "how"))],
    ["Outcome", (row) => shown(get(row.detail, "outcome"))],
    ["Times", (row) => count(get(row.detail, "count") ?? 1), "number"],
    ["Process", (row) => plain(get(row.detail, "process") ?? ""), "number"],
  ];
}

function files(review) {
  const place = document.createDocumentFragment();
  const written = review.of("filesystem.created", "filesystem.changed", "filesystem.deleted");
  const byPhase = grouped(written.filter((row) => row.collector !== "strace"), (row) => row.phase);
  for (const phase of PHASES) {
    const rows = byPhase.get(phase);
    if (!rows) continue;
    const caption = `${phase}: ${tally(rows.map((row) => row.type.slice("filesystem.".length)))}`;
    if (TARGET_PHASES.has(phase)) place.append(el("h3", {}, phase), table(caption, fileColumns(), rows));
    else place.append(folded(caption, table(caption, fileColumns(), rows)));
  }
  if (!byPhase.size) place.append(none("No phase left a file behind that its layer shows."));
  const traced = written.filter((row) => row.collector === "strace");
  if (traced.length) place.append(folded(`Only in the trace: ${plural(traced.length, "write")}`, table("Writes that the trace shows and no layer", readColumns(), traced)));
  const reads = review.of("filesystem.read", "filesystem.refused").filter((row) => TARGET_PHASES.has(row.phase));
  if (reads.length) place.append(el("h3", {}, "Looked at outside the workspace"), table("Reads outside the workspace, and what the kernel refused", readColumns(), reads));
  return place;
}
