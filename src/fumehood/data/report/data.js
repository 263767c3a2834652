// What the page carries: the result without its rows, and the rows, one gzip stream a phase.

const PHASES = ["ACQUIRE", "FETCH", "INSTALL", "PREPARE", "EXERCISE"];
const TARGET_PHASES = new Set(["INSTALL", "PREPARE", "EXERCISE"]);
const SLICE_MS = 12; // of work at a time, so that the page answers meanwhile

// Own keys only, so that `__proto__` and `constructor` in a result are words like any other.
function get(object, name) {
  return object !== null && typeof object === "object" && Object.hasOwn(object, name) ? object[name] : undefined;
}

function breathe() {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

function result() {
  return JSON.parse(document.getElementById("result").textContent);
}

function unpacked(text) {
  if (typeof Uint8Array.fromBase64 === "function") return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const found = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) found[at] = binary.charCodeAt(at);
  return found;
}

async function lines(text, take) {
  const stream = new Blob([unpacked(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let since = performance.now();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const pieces = (rest + part.value).split("\n");
    rest = pieces.pop();
    for (const piece of pieces) {
      take(JSON.parse(piece));
      if (performance.now() - since > SLICE_MS) {
        await breathe();
        since = performance.now();
      }
    }
  }
}

async function load(progress) {
  const rows = [];
  for (const island of document.querySelectorAll("script.rows")) {
    await lines(island.textContent, (row) => rows.push(row));
    progress(rows.length);
  }
  rows.sort((one, other) => one.sequence - other.sequence);
  return rows;
}

function stepOf(row) {
  const slash = row.step.indexOf("/");
  return slash < 0 ? row.step : row.step.slice(0, slash);
}

function activityOf(row) {
  const slash = row.step.indexOf("/");
  return slash < 0 ? "" : row.step.slice(slash + 1);
}

// Seconds since the step began, where the sensor knows the moment.
function momentOf(row) {
  const moment = get(row.detail, "at_seconds");
  return typeof moment === "number" && Number.isFinite(moment) && moment >= 0 ? moment : null;
}

class Review {
  constructor(whole, rows) {
    this.whole = whole;
    this.rows = rows;
    this.byType = Map.groupBy ? Map.groupBy(rows, (row) => row.type) : grouped(rows, (row) => row.type);
    this.home = plain(get(whole.environment, "target_user")) ? `/home/${get(whole.environment, "target_user")}` : null;
  }

  of(...types) {
    return types.flatMap((type) => this.byType.get(type) ?? []);
  }

  facts(...names) {
    return this.of("protocol.fact").filter((row) => names.includes(get(row.detail, "fact")));
  }
}

function grouped(entries, key) {
  const groups = new Map();
  for (const entry of entries) {
    const name = key(entry);
    if (groups.has(name)) groups.get(name).push(entry);
    else groups.set(name, [entry]);
  }
  return groups;
}

// `node (3 times), sh`: what occurred and how often, the most frequent first.
function tally(names, most = 8) {
  const counts = new Map();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  const sorted = [...counts].sort((one, other) => other[1] - one[1]);
  const words = sorted.slice(0, most).map(([name, number]) => (number > 1 ? `${name} (${count(number)} times)` : name));
  return words.join(", ") + (sorted.length > most ? ` and ${sorted.length - most} more` : "");
}
