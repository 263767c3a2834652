// Text and elements. What comes from the target becomes a text node, never markup; the page's policy holds that too.

// What is drawn as nothing, reorders text, or is no character: shown by its number.
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0]|[\u{e0000}-\u{e0fff}]|\p{Surrogate}/gu;
const ESCAPED = /\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})/g;
const LONGEST = 20_000; // characters of one text that are drawn; a row of the report holds more only as captured text

function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

function plain(value) {
  return String(value ?? "").replace(UNSEEN, (found) => `U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`);
}

// The text of the target for a person: what was escaped stands out, `<` is drawn as itself. `prose` keeps lines.
function shown(value, prose = false) {
  let text = String(value ?? "");
  const cut = text.length - LONGEST;
  if (cut > 0) text = text.slice(0, LONGEST);
  if (prose) text = text.replace(/\\([nt\\])/g, (_, letter) => ({ n: "\n", t: "\t", "\\": "\\" })[letter]);
  const parts = document.createDocumentFragment();
  let end = 0;
  const add = (upTo, mark, next) => {
    if (upTo > end) parts.append(text.slice(end, upTo));
    if (mark !== null) parts.append(mark);
    end = next;
  };
  const marks = new RegExp(`${ESCAPED.source}|${UNSEEN.source}`, "gu");
  for (const found of text.matchAll(marks)) {
    const mark = found[0];
    if (mark === "\\x3c") add(found.index, "<", found.index + mark.length);
    else add(found.index, el("span", { class: "escape" }, mark.startsWith("\\") ? mark : plain(mark)), found.index + mark.length);
  }
  add(text.length, null, text.length);
  if (cut > 0) parts.append(el("span", { class: "note" }, ` … ${count(cut)} more characters in events.ndjson`));
  return parts;
}

function code(value) {
  return el("code", {}, shown(value));
}

function digest(value) {
  const text = plain(value);
  return text ? el("code", { class: "digest", title: text }, text.length > 16 ? `${text.slice(0, 12)}…` : text) : "";
}

function count(number) {
  return Number(number).toLocaleString("en");
}

function plural(number, noun) {
  const many = noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : noun.endsWith("s") ? `${noun}es` : `${noun}s`;
  return `${count(number)} ${number === 1 ? noun : many}`;
}

function bytes(number) {
  if (typeof number !== "number") return "";
  if (number < 1024) return `${count(number)} B`;
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]])
    if (number >= size) return `${(number / size).toFixed(number / size < 10 ? 1 : 0)} ${unit}`;
  return "";
}

function empty(value) {
  return value === null || value === undefined || value === "" || (Array.isArray(value) && value.length === 0);
}
