// How long each step took, and when in a step what was seen.

const CATEGORIES = ["process", "network", "filesystem", "protocol", "output", "canary"];
const BINS = 120; // bars of a chart: more than a screen can tell apart
const CHART_HEIGHT = 200;

function categoryOf(row) {
  return row.type.slice(0, row.type.indexOf("."));
}

function bars(review) {
  const steps = review.whole.execution.steps;
  if (!steps.length) return null;
  const total = steps.reduce((sum, step) => sum + step.wall_seconds, 0) || 1;
  let start = 0;
  const list = el("ol", { class: "bars", "aria-label": "Steps by their duration" });
  for (const step of steps) {
    const bar = el("span", { class: `bar ${TARGET_PHASES.has(step.phase) ? "of-target" : "of-ours"}`, "aria-hidden": "true" });
    bar.style.setProperty("--from", `${(100 * start) / total}%`);
    bar.style.setProperty("--long", `${Math.max(0.4, (100 * step.wall_seconds) / total)}%`);
    list.append(el("li", {}, el("span", { class: "bar-name" }, plain(step.name)), el("span", { class: "bar-track" }, bar), el("span", { class: "bar-time" }, `${step.wall_seconds.toFixed(1)} s`)));
    start += step.wall_seconds;
  }
  return list;
}

function binned(rows) {
  const last = rows.reduce((most, row) => Math.max(most, momentOf(row)), 0.001);
  const width = last / BINS;
  const xs = Array.from({ length: BINS }, (_, at) => (at + 0.5) * width);
  const counts = new Map(CATEGORIES.map((name) => [name, new Array(BINS).fill(0)]));
  for (const row of rows) {
    const series = counts.get(categoryOf(row));
    if (series) series[Math.min(BINS - 1, Math.floor(momentOf(row) / width))] += 1;
  }
  return { xs, counts: new Map([...counts].filter(([, series]) => series.some((number) => number > 0))) };
}

// What a custom property stands for now: a canvas does not understand `light-dark()`.
function colour(name) {
  const probe = el("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function chart(place, rows) {
  const { xs, counts } = binned(rows);
  const names = [...counts.keys()];
  let below = new Array(xs.length).fill(0);
  const stacked = names.map((name) => (below = counts.get(name).map((number, at) => number + below[at])));
  const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") }, font: "12px system-ui" };
  const options = {
    width: Math.max(280, place.clientWidth),
    height: CHART_HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: false }, y: { range: (_, __, most) => [0, Math.max(1, most)] } },
    axes: [{ ...axis, values: (_, ticks) => ticks.map((tick) => `${tick} s`) }, { ...axis, size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000], space: 28 }],
    // The highest of a stack is drawn first, and what lies below it over it.
    series: [{}, ...names.map((name) => ({ label: name, fill: colour(name), stroke: colour(name), width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.9, 12] }) })).reverse()],
  };
  place.replaceChildren();
  new uPlot(options, [xs, ...stacked.reverse()], place);
  return names;
}

function timeline(review) {
  const place = document.createDocumentFragment();
  const drawn = bars(review);
  if (drawn) place.append(drawn, el("p", { class: "key" }, el("span", { class: "swatch of-target" }), " programs of the target ", el("span", { class: "swatch of-ours" }), " fumehood's own acquisition"));
  const timed = grouped(review.rows.filter((row) => momentOf(row) !== null), (row) => `${row.phase} ${stepOf(row)}`);
  if (!timed.size) {
    place.append(none("No row of this result carries a moment, so nothing can be drawn over time."));
    return place;
  }
  const choices = [...timed].map(([name, rows]) => el("option", { value: name }, `${plain(name)}: ${plural(rows.length, "row")}`));
  const choice = el("select", { id: "timeline-step" }, ...choices);
  const target = [...timed.keys()].findLast((name) => name.startsWith("EXERCISE"));
  if (target) choice.value = target;
  const canvas = el("div", { class: "chart", role: "img" });
  const key = el("p", { class: "key" });
  const activities = el("div");
  const draw = () => {
    const rows = timed.get(choice.value);
    const names = chart(canvas, rows);
    canvas.setAttribute("aria-label", `Rows over the seconds of ${plain(choice.value)}: ${tally(rows.map(categoryOf))}`);
    key.replaceChildren(...names.flatMap((name) => [el("span", { class: `swatch ${name}` }), ` ${name} `]));
    activities.replaceChildren(activityTable(rows));
  };
  place.append(el("h3", {}, "What was seen when"), el("p", { class: "control" }, el("label", { for: "timeline-step" }, "Step "), choice), canvas, key, activities);
  choice.addEventListener("change", draw);
  new ResizeObserver(draw).observe(canvas.parentElement ?? document.getElementById("timeline-view"));
  document.addEventListener("fumehood-theme", draw);
  queueMicrotask(draw);
  return place;
}

function activityTable(rows) {
  const activities = [...grouped(rows, (row) => activityOf(row) || stepOf(row))].map(([name, those]) => {
    const moments = those.map(momentOf);
    const first = moments.reduce((least, moment) => Math.min(least, moment), Infinity);
    const last = moments.reduce((most, moment) => Math.max(most, moment), 0);
    return { name, those, first, last };
  });
  activities.sort((one, other) => one.first - other.first);
  return table("The same by activity", [
    ["Activity", (a) => code(a.name)],
    ["From", (a) => `${a.first.toFixed(2)} s`, "number"],
    ["To", (a) => `${a.last.toFixed(2)} s`, "number"],
    ["Rows", (a) => count(a.those.length), "number"],
    ["Of them", (a) => tally(a.those.map((row) => row.type))],
  ], activities);
}
