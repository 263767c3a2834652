// Each program under the one that started it.

const TREE_NODES = 2_000; // drawn at most; a fork bomb has more
const TREE_DEPTH = 40;
const NODE_PROGRAMS = 4; // drawn of one process: it becomes another program by exec, seldom more than once
const OPEN_NODES = 60; // a tree of up to so many is drawn unfolded

function nodesOf(rows) {
  const nodes = new Map();
  const at = (number, parent) => {
    if (!nodes.has(number)) nodes.set(number, { number, parent: null, programs: [], failed: [], exit: null, children: [] });
    const node = nodes.get(number);
    if (parent !== null && parent !== undefined) node.parent = parent;
    return node;
  };
  for (const row of rows) {
    const number = get(row.detail, "process");
    if (typeof number !== "number") continue;
    const node = at(number, get(row.detail, "parent"));
    if (row.type === "process.exit") node.exit = row;
    else if (get(row.detail, "outcome") === "started") node.programs.push(row);
    else node.failed.push(row);
  }
  const roots = [];
  for (const node of nodes.values()) {
    const parent = node.parent === null ? undefined : nodes.get(node.parent);
    if (parent && parent !== node) parent.children.push(node);
    else roots.push(node);
  }
  return { nodes, roots };
}

function argvOf(row) {
  const argv = get(row.detail, "argv");
  return Array.isArray(argv) ? argv.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word}'`)).join(" ") : String(get(row.detail, "program") ?? "?");
}

function ending(row) {
  if (!row) return "";
  const signal = get(row.detail, "signal");
  return signal ? `ended by signal ${plain(signal)}` : `status ${plain(get(row.detail, "status"))}`;
}

function nodeLabel(node) {
  const rows = [...node.programs, ...node.failed].sort((one, other) => one.sequence - other.sequence);
  const last = [`process ${node.number}`, ending(node.exit)].filter(Boolean).join(", ");
  const parts = rows.slice(0, NODE_PROGRAMS).map((row, at) => {
    const outcome = get(row.detail, "outcome");
    const notes = [outcome === "started" ? "" : plain(outcome), plain(activityOf(row)), at ? "" : last].filter(Boolean);
    return el("span", { class: "program" }, code(argvOf(row)), el("span", { class: "note" }, `  ${notes.join(" · ")}`));
  });
  if (rows.length > NODE_PROGRAMS) parts.push(el("span", { class: "program note" }, `and ${count(rows.length - NODE_PROGRAMS)} more programs or attempts`));
  if (!rows.length) parts.push(el("span", { class: "note" }, `no program of its own · ${last}`));
  return el("span", { class: "node" }, ...parts);
}

function branch(nodes, budget, depth, open) {
  const list = el("ul", { class: "tree" });
  for (const node of nodes) {
    if (budget.left <= 0 || budget.seen.has(node)) continue;
    budget.seen.add(node);
    budget.left -= 1;
    if (!node.children.length || depth >= TREE_DEPTH) list.append(el("li", {}, nodeLabel(node)));
    else list.append(el("li", {}, foldedLate(nodeLabel(node), () => branch(node.children, budget, depth + 1, open), open || depth < 1)));
  }
  if (depth >= TREE_DEPTH) list.append(el("li", { class: "note" }, "deeper ones are in the rows below"));
  return list;
}

function processes(review) {
  const place = document.createDocumentFragment();
  const steps = grouped(review.of("process.exec", "process.exit"), (row) => `${row.phase} ${stepOf(row)}`);
  if (!steps.size) return none("No sensor saw a process.");
  for (const [name, rows] of steps) {
    rows.sort((one, other) => one.sequence - other.sequence);
    const { nodes, roots } = nodesOf(rows);
    const budget = { left: TREE_NODES, seen: new Set() };
    const tree = branch(roots, budget, 0, nodes.size <= OPEN_NODES);
    place.append(el("h3", {}, `${plain(name)}: ${plural(nodes.size, "process")}`), tree);
    if (nodes.size > TREE_NODES) place.append(none(`Of ${count(nodes.size)} processes at most ${count(TREE_NODES)} are drawn; all are in the rows below.`));
  }
  const refused = review.of("process.refused").filter((row) => TARGET_PHASES.has(row.phase));
  if (refused.length)
    place.append(el("h3", {}, "Calls that were refused"), table("Refused calls", [
      ["Call", (row) => code(get(row.detail, "call"))],
      ["Step", (row) => plain(row.step)],
      ["Error", (row) => shown(get(row.detail, "error"))],
      ["Times", (row) => count(get(row.detail, "count") ?? 1), "number"],
      ["Arguments", (row) => code(get(row.detail, "arguments"))],
      ["Usual", (row) => shown(get(row.detail, "usual"))],
    ], refused));
  return place;
}
