// Every row, with a search and filters; a page of them at a time, so that their number does not matter.

const PAGE_ROWS = 100;
const TYPING_MS = 120;
const FILTERS = ["phase", "step", "type", "collector"];

function flat(value, into) {
  if (Array.isArray(value)) for (const entry of value) flat(entry, into);
  else if (value !== null && typeof value === "object")
    for (const [name, entry] of Object.entries(value)) {
      into.push(name);
      flat(entry, into);
    }
  else if (value !== null) into.push(String(value));
}

// What a search looks through: every word of the row, in small letters.
function haystack(row) {
  const parts = [row.step, row.type, row.collector];
  flat(row.detail, parts);
  return parts.join(" ").toLowerCase();
}

const SAYING = {
  "process.exec": (d, row) => `${argvOf(row)}${get(d, "outcome") === "started" ? "" : `  ${get(d, "outcome")}`}`,
  "process.exit": (d, row) => `${get(d, "program") ?? ""}  ${ending(row)}`,
  "process.refused": (d) => `${get(d, "call")}  ${get(d, "error")}`,
  "network.dns": (d) => get(d, "name"),
  "network.connect": (d) => `${get(d, "name") ?? get(d, "path") ?? get(d, "address")}${empty(get(d, "port")) ? "" : `:${get(d, "port")}`}  ${get(d, "decision") ?? get(d, "outcome") ?? ""}`,
  "network.tls": (d) => `${get(d, "name")}:${get(d, "port")}`,
  "network.http": (d) => (get(d, "method") ? `${get(d, "method")} ${get(d, "host") ?? get(d, "name") ?? ""}${get(d, "target") ?? ""}` : get(d, "request")),
  "network.other": (d) => `${get(d, "protocol") ?? ""} ${get(d, "address") ?? ""} ${get(d, "port") ?? ""}  ${get(d, "decision") ?? ""}`,
  "protocol.frame": (d) => `${get(d, "direction")} ${get(d, "kind")} ${get(d, "method") ?? ""} ${get(d, "problem") ?? ""}`,
  "protocol.noise": (d) => get(d, "first"),
  "protocol.fact": (d) => `${words(get(d, "fact"))} ${get(d, "name") ?? get(d, "tool") ?? get(d, "what") ?? get(d, "server_name") ?? ""} ${get(d, "outcome") ?? ""}`,
  "output.text": (d) => `${get(d, "stream")}: ${get(d, "text")}`,
  "canary.read": (d) => `${get(d, "canary")}  ${get(d, "path") ?? ""}`,
  "canary.sent": (d) => `${get(d, "canary")} in ${get(d, "where")}  ${get(d, "name") ?? get(d, "path") ?? ""}`,
};

function saying(row) {
  const say = Object.hasOwn(SAYING, row.type) ? SAYING[row.type] : (d) => `${get(d, "path") ?? ""}${get(d, "outcome") ? `  ${get(d, "outcome")}` : ""}`;
  return String(say(row.detail, row) ?? "").slice(0, 300);
}

class Events {
  constructor(review) {
    this.rows = review.rows;
    this.total = review.whole.observations.total;
    this.haystacks = new Array(this.rows.length);
    this.found = this.rows.map((_, at) => at);
    this.page = 0;
    this.opened = new Set();
    this.search = el("input", { type: "search", id: "events-search", autocomplete: "off", spellcheck: "false", placeholder: "a path, a name, a word" });
    this.selects = new Map(FILTERS.map((name) => [name, this.select(name)]));
    this.status = el("p", { class: "status", role: "status", "aria-live": "polite" });
    this.body = el("tbody");
    this.whole = this.build();
    this.draw();
  }

  select(name) {
    const counts = new Map();
    for (const row of this.rows) {
      const value = name === "step" ? stepOf(row) : row[name];
      counts.set(value, (counts.get(value) ?? 0) + 1);
    }
    const options = [...counts].sort(([one], [other]) => (one < other ? -1 : 1)).slice(0, 200);
    const made = el("select", { id: `events-${name}` }, el("option", { value: "" }, "all"), ...options.map(([value, number]) => el("option", { value }, `${plain(value)} (${count(number)})`)));
    made.addEventListener("change", () => this.filter());
    return made;
  }

  build() {
    const field = (id, label, control) => el("div", { class: "field" }, el("label", { for: id }, label), control);
    const clear = el("button", { type: "button" }, "Clear");
    clear.addEventListener("click", () => {
      this.search.value = "";
      for (const select of this.selects.values()) select.value = "";
      this.filter();
      this.search.focus();
    });
    let waiting = 0;
    this.search.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => this.filter(), TYPING_MS);
    });
    const form = el("div", { class: "filters", role: "search", "aria-label": "Rows" }, field("events-search", "Search", this.search), ...FILTERS.map((name) => field(`events-${name}`, name[0].toUpperCase() + name.slice(1), this.selects.get(name))), clear);
    const heads = ["Row", "Step", "Type", "What", "Collector", "Fidelity"].map((head) => el("th", { scope: "col" }, head));
    const made = el("table", { class: "rows" }, el("caption", {}, "Rows"), el("thead", {}, el("tr", {}, ...heads)), this.body);
    this.scroll = el("div", { class: "scroll", role: "region", "aria-label": "Rows", tabindex: 0 }, made);
    return el("div", { class: "events" }, form, el("div", { class: "found" }, this.status, this.pager()), this.scroll);
  }

  pager() {
    const button = (label, to) => {
      const made = el("button", { type: "button" }, label);
      made.addEventListener("click", () => {
        this.page = Math.min(Math.max(0, to()), this.last());
        this.draw();
      });
      return made;
    };
    this.back = [button("First", () => 0), button("Previous", () => this.page - 1)];
    this.on = [button("Next", () => this.page + 1), button("Last", () => this.last())];
    this.pages = el("div", { class: "pager", role: "group", "aria-label": "Pages of rows" }, ...this.back, ...this.on);
    return this.pages;
  }

  last() {
    return Math.max(0, Math.ceil(this.found.length / PAGE_ROWS) - 1);
  }

  filter() {
    const wanted = this.search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = FILTERS.map((name) => [name, this.selects.get(name).value]).filter(([, value]) => value !== "");
    this.found = [];
    for (let at = 0; at < this.rows.length; at += 1) {
      const row = this.rows[at];
      if (!chosen.every(([name, value]) => (name === "step" ? stepOf(row) : row[name]) === value)) continue;
      if (wanted.length) {
        this.haystacks[at] ??= haystack(row);
        if (!wanted.every((word) => this.haystacks[at].includes(word))) continue;
      }
      this.found.push(at);
    }
    this.page = 0;
    this.draw();
  }

  // The words of all rows, got ready while nobody waits.
  async prepare() {
    let since = performance.now();
    for (let at = 0; at < this.rows.length; at += 1) {
      this.haystacks[at] ??= haystack(this.rows[at]);
      if (performance.now() - since > SLICE_MS) {
        await breathe();
        since = performance.now();
      }
    }
  }

  draw() {
    const from = this.page * PAGE_ROWS;
    const shownRows = this.found.slice(from, from + PAGE_ROWS);
    this.body.replaceChildren(...shownRows.flatMap((at) => this.drawRow(this.rows[at])));
    const part = this.found.length > PAGE_ROWS ? `, ${count(from + 1)} to ${count(from + shownRows.length)} shown` : "";
    const all = this.total > this.rows.length ? ` (of ${count(this.total)} made; the others are in events.ndjson only, or were lost)` : "";
    this.status.textContent = `${plural(this.found.length, "row")} of ${count(this.rows.length)}${part}${all}`;
    this.pages.hidden = this.last() === 0;
    for (const button of this.back) button.disabled = this.page === 0;
    for (const button of this.on) button.disabled = this.page >= this.last();
  }

  drawRow(row) {
    const open = this.opened.has(row);
    const id = `row-${Number(row.sequence)}`;
    const opener = el("button", { type: "button", class: "opener", "aria-expanded": String(open), "aria-controls": open ? id : null }, count(row.sequence));
    const first = el("tr", {}, el("th", { scope: "row" }, opener), el("td", {}, code(row.step)), el("td", { class: "nowrap" }, el("span", { class: `swatch ${CATEGORIES.includes(categoryOf(row)) ? categoryOf(row) : ""}` }), ` ${plain(row.type)}`), el("td", { class: "what" }, code(saying(row))), el("td", {}, plain(row.collector)), el("td", {}, plain(row.fidelity)));
    opener.addEventListener("click", () => {
      const isOpen = this.opened.delete(row);
      if (isOpen) first.nextElementSibling.remove();
      else {
        this.opened.add(row);
        first.after(this.detail(row, id));
      }
      opener.setAttribute("aria-expanded", String(!isOpen));
      if (isOpen) opener.removeAttribute("aria-controls");
      else opener.setAttribute("aria-controls", id);
    });
    return open ? [first, this.detail(row, id)] : [first];
  }

  detail(row, id) {
    const pairs = Object.entries(row.detail).map(([name, value]) => [words(name), empty(value) ? "" : name === "text" ? el("pre", { class: "text", tabindex: 0 }, shown(value)) : valueNode(value)]);
    const cut = row.cut ? el("p", { class: "note" }, "Something inside this row was cut.") : "";
    return el("tr", { class: "detail", id }, el("td", { colspan: 6 }, el("p", { class: "note" }, `${row.phase}, ${plain(row.fidelity)} by ${plain(row.collector)}`), terms(pairs), cut));
  }
}
