// What each step wrote to its streams.

function output(review) {
  const rows = review.of("output.text");
  if (!rows.length) return none("No text was captured.");
  const place = document.createDocumentFragment();
  for (const row of rows) {
    const dropped = get(row.detail, "dropped_bytes");
    const label = `${plain(row.step)}, ${plain(get(row.detail, "stream"))}: ${plural(get(row.detail, "lines") ?? 0, "line")}, ${bytes(get(row.detail, "bytes"))}${dropped ? `, ${bytes(dropped)} dropped` : ""}`;
    const open = TARGET_PHASES.has(row.phase) && (get(row.detail, "bytes") ?? 0) < 2048;
    place.append(foldedLate(label, () => el("pre", { class: "text", tabindex: 0, "aria-label": label }, shown(get(row.detail, "text"))), open));
  }
  return place;
}
