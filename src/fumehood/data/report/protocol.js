// What the server said of itself, what it defines, what was called, and the frames in order.

function introduced(row) {
  const detail = row.detail;
  const offers = get(detail, "capabilities");
  const names = Array.isArray(offers) ? offers : offers && typeof offers === "object" ? Object.keys(offers) : [];
  const parts = [
    terms([
      ["Step", plain(row.step)],
      ["Protocol", code(get(detail, "protocol_version"))],
      ["Name", shown([get(detail, "server_name"), get(detail, "server_version")].filter((part) => !empty(part)).join(" "))],
      ["Title", shown(get(detail, "server_title"))],
      ["Offers", shown(names.join(", "))],
    ].map(([name, value]) => [name, value instanceof DocumentFragment && !value.textContent ? "" : value])),
  ];
  if (!empty(get(detail, "instructions"))) parts.push(folded("Instructions for the model", el("pre", { class: "text", tabindex: 0 }, shown(get(detail, "instructions"), true))));
  return el("div", { class: "block" }, ...parts);
}

const DIFFERENCES = ["era_difference", "repeat_difference", "call_difference"];
const INVISIBLE = "invisible_characters";

function invisible(row) {
  const value = get(row.detail, INVISIBLE);
  if (empty(value) || value === 0) return "none";
  if (typeof value === "number") return el("span", { class: "escape" }, count(value));
  return valueNode(value);
}

// The name of something, and folded below it whatever else its row says.
function unfolding(row, name, told) {
  const left = Object.entries(row.detail).filter(([key, value]) => !told.includes(key) && !empty(value));
  const value = (entry) => (typeof entry === "string" && entry.length > 40 && !/^[0-9a-f]{64}$/.test(entry) ? el("pre", { class: "text", tabindex: 0 }, shown(entry, true)) : valueNode(entry));
  if (!left.length) return code(name);
  return foldedLate(code(name), () => terms(left.map(([key, entry]) => [words(key), value(entry)])));
}

function definition(row) {
  return unfolding(row, get(row.detail, "name") ?? "", ["fact", "what", "name", "sha256", "bytes"]);
}

function definitions(review, place) {
  const lists = review.facts("listed");
  if (lists.length)
    place.append(el("h3", {}, "Lists"), table("What the server listed", [
      ["List", (row) => shown(get(row.detail, "what"))],
      ["Step", (row) => plain(row.step)],
      ["Entries", (row) => count(get(row.detail, "count") ?? 0), "number"],
      ["Pages", (row) => plain(get(row.detail, "pages") ?? ""), "number"],
      ["Complete", (row) => (get(row.detail, "complete") === false ? "no" : "yes")],
      ["SHA-256 of the set", (row) => digest(get(row.detail, "sha256"))],
    ], lists));
  const defined = review.facts("definition");
  if (defined.length)
    place.append(el("h3", {}, "Definitions"), table("Tools, prompts and resources as the server defines them", [
      ["Name", definition, "wide"],
      ["What", (row) => shown(get(row.detail, "what"))],
      ["Bytes", (row) => count(get(row.detail, "bytes") ?? 0), "number"],
      ["Invisible characters", invisible],
      ["Network references", (row) => (empty(get(row.detail, "network_refs")) || get(row.detail, "network_refs") === 0 ? "none" : valueNode(get(row.detail, "network_refs")))],
      ["SHA-256", (row) => digest(get(row.detail, "sha256"))],
      ["Step", (row) => plain(stepOf(row))],
    ], defined));
}

function calls(review, place) {
  const called = review.facts("called");
  if (called.length)
    place.append(el("h3", {}, "Calls"), table("Tools that were called", [
      ["Tool", (row) => unfolding(row, get(row.detail, "tool") ?? "", ["fact", "tool", "call", "outcome", "bytes", "sha256", "arguments_sha256"]), "wide"],
      ["Step", (row) => plain(stepOf(row))],
      ["Call", (row) => plain(get(row.detail, "call") ?? ""), "number"],
      ["Outcome", (row) => shown(get(row.detail, "outcome"))],
      ["Bytes", (row) => count(get(row.detail, "bytes") ?? 0), "number"],
      ["SHA-256 of the result", (row) => digest(get(row.detail, "sha256"))],
      ["SHA-256 of the arguments", (row) => digest(get(row.detail, "arguments_sha256"))],
    ], called));
  const different = review.facts(...DIFFERENCES);
  if (different.length)
    place.append(el("h3", {}, "Differences"), table("Between two eras, two starts, or before and after the calls", [
      ["Between", (row) => words(get(row.detail, "fact"))],
      ["Step", (row) => plain(stepOf(row))],
      ["What", (row) => shown([get(row.detail, "what"), get(row.detail, "name")].filter((part) => !empty(part)).join(" "))],
      ["Before", (row) => (empty(get(row.detail, "before")) ? "" : valueNode(get(row.detail, "before")))],
      ["After", (row) => (empty(get(row.detail, "after")) ? "" : valueNode(get(row.detail, "after")))],
    ], different));
}

const TOLD = new Set(["initialized", "discovered", "listed", "definition", "called", ...DIFFERENCES]);

function protocol(review) {
  const place = document.createDocumentFragment();
  const first = review.facts("initialized", "discovered");
  if (!first.length) place.append(none("No valid answer to the first request was recorded."));
  place.append(...first.map(introduced));
  definitions(review, place);
  calls(review, place);
  const others = review.of("protocol.fact").filter((row) => !TOLD.has(get(row.detail, "fact")));
  if (others.length)
    place.append(table("Further facts", [["Fact", (row) => words(get(row.detail, "fact"))], ["Step", (row) => plain(row.step)], ["Detail", (row) => valueNode(Object.fromEntries(Object.entries(row.detail).filter(([name]) => name !== "fact")))]], others));
  const noise = review.of("protocol.noise");
  if (noise.length)
    place.append(el("h3", {}, "No frames"), table("What stood on standard output and was no frame", [["Step", (row) => plain(row.step)], ["Lines", (row) => count(get(row.detail, "lines") ?? 0), "number"], ["First", (row) => code(get(row.detail, "first"))]], noise));
  const frames = review.of("protocol.frame");
  if (frames.length)
    place.append(el("h3", {}, "Transcript"), table("Frames in order", [
      ["Frame", (row) => (get(row.detail, "direction") === "sent" ? "→ to the server" : "← from the server"), "nowrap"],
      ["Step", (row) => plain(row.step)],
      ["Kind", (row) => shown(get(row.detail, "kind"))],
      ["Method", (row) => (empty(get(row.detail, "method")) ? "" : code(get(row.detail, "method")))],
      ["Id", (row) => shown(get(row.detail, "id"))],
      ["Bytes", (row) => count(get(row.detail, "bytes") ?? 0), "number"],
      ["SHA-256", (row) => digest(get(row.detail, "sha256"))],
      ["Problem", (row) => shown(get(row.detail, "problem"))],
    ], frames));
  return place;
}
