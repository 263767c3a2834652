// Tables that grow on demand, folded values: what the sections are made of.

const FIRST_ROWS = 50;
const MORE_ROWS = 200;

// `columns`: [head, cell, class]; a cell gives a node or a text. Rows beyond the first come by a button.
function table(caption, columns, rows) {
  const body = el("tbody");
  const made = el(
    "table",
    {},
    el("caption", {}, caption),
    el("thead", {}, el("tr", {}, ...columns.map(([head, , look]) => el("th", { scope: "col", class: look }, head)))),
    body,
  );
  const scroll = el("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: 0 }, made);
  const whole = el("div", { class: "grown" }, scroll);
  let next = 0;
  const grow = (most) => {
    for (const end = Math.min(next + most, rows.length); next < end; next += 1)
      body.append(el("tr", {}, ...columns.map(([, cell, look], at) => el(at ? "td" : "th", { scope: at ? null : "row", class: look }, cell(rows[next])))));
  };
  grow(FIRST_ROWS);
  if (next < rows.length) {
    const more = el("button", { type: "button", class: "more" });
    const say = () => {
      more.textContent = `Show ${count(Math.min(MORE_ROWS, rows.length - next))} more of ${count(rows.length)}`;
    };
    more.addEventListener("click", () => {
      grow(MORE_ROWS);
      if (next < rows.length) say();
      else {
        more.remove();
        scroll.focus();
      }
    });
    say();
    whole.append(more);
  }
  return whole;
}

function folded(label, ...content) {
  return el("details", {}, el("summary", {}, label), ...content);
}

// Content that is made when it is opened, so that a thousand folded parts cost nothing.
function foldedLate(label, make, open = false) {
  const made = el("details", { open }, el("summary", {}, label));
  const fill = () => {
    if (made.open && made.childElementCount === 1) made.append(make());
  };
  made.addEventListener("toggle", fill);
  fill();
  return made;
}

function terms(pairs, look = "pairs") {
  const kept = pairs.filter(([, value]) => !empty(value));
  return el("dl", { class: look }, ...kept.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function none(text) {
  return el("p", { class: "none" }, text);
}

function words(name) {
  return plain(name).replaceAll("_", " ");
}

// Any value of a detail, as text: lists and objects as lists of terms.
function valueNode(value, depth = 0) {
  if (Array.isArray(value)) {
    if (value.every((entry) => entry === null || typeof entry !== "object")) return code(value.map((entry) => String(entry)).join("  "));
    if (depth > 6) return code(JSON.stringify(value));
    return el("ul", { class: "values" }, ...value.slice(0, 256).map((entry) => el("li", {}, valueNode(entry, depth + 1))));
  }
  if (value !== null && typeof value === "object") {
    if (depth > 6) return code(JSON.stringify(value));
    return terms(Object.entries(value).map(([name, entry]) => [words(name), entry === null ? "" : valueNode(entry, depth + 1)]));
  }
  if (typeof value === "string" && /^[0-9a-f]{64}$/.test(value)) return digest(value);
  if (typeof value === "number") return el("code", {}, Number.isInteger(value) && value > 9999 ? count(value) : String(value));
  return code(value === null ? "null" : value);
}

function before(detail, name) {
  return get(get(detail, "before"), name);
}

// `0644 → 0600`, or one of both where the other is not known.
function changed(from, to, show = (value) => code(value)) {
  if (empty(from) || from === to) return empty(to) ? "" : show(to);
  if (empty(to)) return show(from);
  return el("span", { class: "change" }, show(from), " → ", show(to));
}
