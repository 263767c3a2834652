// Reads what the page carries and fills its parts. A part that fails says so and leaves the others alone.

const PARTS = { timeline, network, files, processes, protocol, canaries, output };

function fill(name, make) {
  const view = document.getElementById(`${name}-view`);
  try {
    view.replaceChildren(make());
  } catch (error) {
    view.replaceChildren(el("p", { class: "note" }, `This part could not be drawn: ${plain(error)}. result.json has its rows.`));
  }
}

function themed() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const button = el("button", { type: "button", class: "theme" });
  const isDark = () => (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const say = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
    document.dispatchEvent(new Event("fumehood-theme"));
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    say();
  });
  dark.addEventListener("change", say);
  say();
  document.querySelector("nav").append(button);
}

function printed() {
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")].slice(0, 500);
    for (const details of closed) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of closed) details.open = false;
  });
}

function located() {
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const visible = new Set();
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) visible[entry.isIntersecting ? "add" : "delete"](entry.target.id);
    const first = [...links.keys()].find((name) => visible.has(name));
    for (const [name, link] of links) {
      if (name === first) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }, { rootMargin: "0px 0px -55% 0px" });
  for (const name of links.keys()) watch.observe(document.getElementById(name));
}

async function main() {
  themed();
  printed();
  located();
  for (const view of document.querySelectorAll(".view")) view.hidden = false;
  const waiting = document.querySelectorAll(".waiting");
  const rows = await load((number) => {
    for (const place of waiting) place.textContent = `${count(number)} rows read …`;
  });
  const review = new Review(result(), rows);
  for (const [name, make] of Object.entries(PARTS)) {
    fill(name, () => make(review));
    await breathe();
  }
  let events = null;
  fill("events", () => (events = new Events(review)).whole);
  document.documentElement.dataset.ready = "true";
  await events?.prepare();
  document.documentElement.dataset.searchable = "true";
}

main().catch((error) => {
  for (const place of document.querySelectorAll(".waiting")) place.textContent = `The rows could not be read: ${plain(error)}. result.json and events.ndjson have them.`;
  document.documentElement.dataset.ready = "failed";
});
