// Names that were asked for, connections, TLS names and requests, joined by step, name and port.

function placeKey(row, names) {
  const address = get(row.detail, "address");
  const name = get(row.detail, "name") || names.get(`${stepOf(row)} ${address}`) || address || "";
  return [stepOf(row), String(name), get(row.detail, "port") ?? ""];
}

function joined(review) {
  const names = new Map();
  for (const row of review.of("network.dns")) {
    const address = get(row.detail, "address");
    if (address) names.set(`${stepOf(row)} ${address}`, get(row.detail, "name"));
  }
  const places = new Map();
  const at = (step, name, port, row) => {
    const key = JSON.stringify([step, name, port]);
    if (!places.has(key))
      places.set(key, { phase: row.phase, step, name, port, asked: 0, decisions: [], tried: [], whys: new Set(), up: 0, down: 0, tls: new Set(), requests: [], peers: new Set() });
    return places.get(key);
  };
  for (const row of review.of("network.connect", "network.tls", "network.http")) {
    if (get(row.detail, "family") === "unix") continue;
    const place = at(...placeKey(row, names), row);
    if (row.type === "network.tls") place.tls.add(String(get(row.detail, "name")));
    else if (row.type === "network.http") place.requests.push(row);
    else if (row.collector === "egress") {
      place.decisions.push(String(get(row.detail, "decision")));
      place.up += Number(get(row.detail, "up_bytes") ?? 0);
      place.down += Number(get(row.detail, "down_bytes") ?? 0);
      if (get(row.detail, "why")) place.whys.add(String(get(row.detail, "why")));
      if (get(row.detail, "peer")) place.peers.add(String(get(row.detail, "peer")));
    } else place.tried.push(String(get(row.detail, "outcome")));
  }
  const known = new Map();
  for (const place of places.values()) if (!known.has(`${place.step} ${place.name}`)) known.set(`${place.step} ${place.name}`, place);
  for (const row of review.of("network.dns")) {
    const name = String(get(row.detail, "name"));
    (known.get(`${stepOf(row)} ${name}`) ?? at(stepOf(row), name, "", row)).asked += 1;
  }
  return [...places.values()];
}

function placeTable(caption, places) {
  return table(caption, [
    ["Step", (p) => plain(p.step)],
    ["Name or address", (p) => code(p.name)],
    ["Port", (p) => plain(p.port), "number"],
    ["Times asked", (p) => (p.asked ? count(p.asked) : ""), "number"],
    ["Connections", (p) => (p.decisions.length ? shown(tally(p.decisions)) : p.tried.length ? shown(`trace: ${tally(p.tried)}`) : "none")],
    ["TLS name", (p) => shown([...p.tls].slice(0, 5).join(", "))],
    ["Up", (p) => (p.up ? bytes(p.up) : ""), "number"],
    ["Down", (p) => (p.down ? bytes(p.down) : ""), "number"],
    ["HTTP", (p) => (p.requests.length ? plural(p.requests.length, "request") : "")],
    ["Why, and where to", (p) => shown([...p.whys, ...p.peers].slice(0, 5).join(", "))],
  ], places);
}

function requestLine(row) {
  const method = get(row.detail, "method");
  const text = method ? `${method} ${get(row.detail, "target") ?? ""}` : get(row.detail, "request") ?? "";
  const name = get(row.detail, "host") || get(row.detail, "name") || "";
  return el("span", {}, el("span", { class: "where" }, `${plain(row.step)} → ${plain(name)}:${plain(get(row.detail, "port") ?? "")} `), code(text), get(row.detail, "body_bytes") ? ` with ${bytes(get(row.detail, "body_bytes"))}` : "");
}

function requestBody(row) {
  const parts = [];
  const pairs = ["decision", "headers", "body_bytes", "body_sha256", "complete"].map((name) => {
    const value = get(row.detail, name);
    return [words(name), empty(value) ? "" : valueNode(value)];
  });
  parts.push(terms(pairs));
  const body = get(row.detail, "body");
  if (!empty(body)) parts.push(el("pre", { class: "text", tabindex: 0 }, shown(body, true)));
  return el("div", { class: "inside" }, ...parts);
}

function network(review) {
  const place = document.createDocumentFragment();
  const places = joined(review);
  const theirs = places.filter((p) => TARGET_PHASES.has(p.phase));
  const ours = places.filter((p) => !TARGET_PHASES.has(p.phase));
  place.append(theirs.length ? placeTable("By the target's programs", theirs) : none("The target's programs asked for no name and tried no connection that a sensor saw."));
  const requests = review.of("network.http").filter((row) => TARGET_PHASES.has(row.phase));
  if (requests.length) {
    place.append(el("h3", {}, plural(requests.length, "HTTP request")));
    place.append(grownList(requests, (row) => foldedLate(requestLine(row), () => requestBody(row))));
  }
  const other = [...review.of("network.other"), ...review.of("network.connect").filter((row) => get(row.detail, "family") === "unix")].filter((row) => TARGET_PHASES.has(row.phase));
  if (other.length)
    place.append(table("Other traffic and local sockets", [
      ["Step", (row) => plain(row.step)],
      ["What", (row) => shown(get(row.detail, "protocol") ?? get(row.detail, "call") ?? "")],
      ["Where", (row) => code(get(row.detail, "path") ?? [get(row.detail, "address"), get(row.detail, "port")].filter((part) => !empty(part)).join(":"))],
      ["Outcome", (row) => shown(get(row.detail, "decision") ?? get(row.detail, "outcome") ?? "")],
      ["First bytes", (row) => (empty(get(row.detail, "first")) ? "" : code(get(row.detail, "first")))],
    ], other));
  if (ours.length) place.append(folded(`fumehood's own acquisition: ${plural(ours.length, "place")}`, placeTable("By fumehood's acquisition", ours)));
  return place;
}

// A list that grows by a button, for entries that are no rows of a table.
function grownList(entries, make) {
  const list = el("ul", { class: "folds" });
  const whole = el("div", {}, list);
  let next = 0;
  const more = el("button", { type: "button", class: "more" });
  const grow = () => {
    for (const end = Math.min(next + FIRST_ROWS, entries.length); next < end; next += 1) list.append(el("li", {}, make(entries[next])));
    more.textContent = `Show more of ${count(entries.length)}`;
    if (next >= entries.length) more.remove();
  };
  whole.append(more);
  more.addEventListener("click", grow);
  grow();
  return whole;
}
