// The entry module of a child: it takes one job, runs its program, and says how that ended.
//
// It has no imports. Everything that it uses once the program has begun was captured before, so that a program that
// changes a prototype breaks its own run only. Nothing here is a wall: a program may take over the whole process. The
// walls stand around it, and who reads these lines (code/bridge.py) believes none of them.

const runtime = Deno;
const root = globalThis;
const { bind, call } = Function.prototype;
const uncurry = bind.bind(call);
const method = (object, name) => bind.call(object[name], object);

const { parse, stringify } = JSON;
const { create, defineProperty, freeze } = Object;
const [ErrorType, PromiseType, ProxyType, RangeErrorType, Bytes] = [Error, Promise, Proxy, RangeError, Uint8Array];
const text = String;
const indexOf = uncurry(String.prototype.indexOf);
const slice = uncurry(String.prototype.slice);
const exec = uncurry(RegExp.prototype.exec);
const then = uncurry(Promise.prototype.then);
const toWellFormed = uncurry(String.prototype.toWellFormed);
const mapGet = uncurry(Map.prototype.get);
const mapSet = uncurry(Map.prototype.set);
const mapDelete = uncurry(Map.prototype.delete);
const encode = method(new TextEncoder(), "encode");
const decode = method(new TextDecoder(), "decode");
const subarray = uncurry(Bytes.prototype.subarray);
const setBytes = uncurry(Bytes.prototype.set);
const toBase64 = uncurry(Bytes.prototype.toBase64);
const write = method(runtime.stdout, "writeSync");
const read = method(runtime.stdin, "read");
const listen = method(root, "addEventListener");
const { exit, inspect } = runtime;

const SHOWN = 4000; // characters of a message or a stack
const LOGGED = 16000; // characters of one call of console
const CHUNK = 65536; // a pipe's own buffer
const HEAD = "export default async (amcp, tools, input) => {\n"; // one line: code/positions.py counts on it
const SOURCE = "data:application/typescript;base64,";
const LONG_NUMBER = /[0-9]{19}/;
const NO_BASE64 = /[^A-Za-z0-9+/=]/;

// --- what is said

let depth = 64;

let unsaid = ""; // the calls of this turn
const settled = PromiseType.resolve();

/** Write one line now. JSON of the program's making is within what every reader takes: depth, integers, surrogates. */
function say(line) {
  const bytes = encode(`${line}\n`);
  const told = isPlain(line) ? bytes : tidy(bytes);
  flush();
  put(told);
}

/** Write one line when the program waits, with the others of this turn: calls made at once are one write. */
function sayLater(line) {
  if (!isPlain(line)) return say(line);
  if (unsaid === "") then(settled, flush);
  unsaid += `${line}\n`;
  if (unsaid.length > CHUNK) flush();
}

function flush() {
  if (unsaid === "") return;
  const bytes = encode(unsaid);
  unsaid = "";
  put(bytes);
}

function put(bytes) {
  for (let at = 0; at < bytes.length; ) at += write(at === 0 ? bytes : subarray(bytes, at));
}

/** Whether `tidy` would leave a line as it is, as far as loops of V8's own can tell; ours are interpreted. */
function isPlain(line) {
  let left = depth;
  for (let at = indexOf(line, "{"); at >= 0; at = indexOf(line, "{", at + 1)) if (--left < 0) return false;
  for (let at = indexOf(line, "["); at >= 0; at = indexOf(line, "[", at + 1)) if (--left < 0) return false;
  return indexOf(line, "\\ud") < 0 && exec(LONG_NUMBER, line) === null;
}

/** Refuse what nests too deep, make half of a surrogate pair U+FFFD, and an integer beyond 64 bits a float. */
function tidy(bytes) {
  let inString = false, open = 0, digits = 0, whole = true, wide = null;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (inString) {
      if (byte === 0x5c) {
        at++; // JSON.stringify escapes only what is no pair
        if (bytes[at] === 0x75 && bytes[at + 1] === 0x64 && bytes[at + 2] !== 0x30) {
          bytes[at + 1] = bytes[at + 2] = bytes[at + 3] = 0x66;
          bytes[at + 4] = 0x64;
        }
      } else if (byte === 0x22) inString = false;
      continue;
    }
    if (byte >= 0x30 && byte <= 0x39) {
      digits++;
      continue;
    }
    if (digits > 18 && whole && byte !== 0x2e && byte !== 0x65) wide = { at, next: wide };
    whole = byte !== 0x2e && byte !== 0x65 && byte !== 0x2b;
    digits = 0;
    if (byte === 0x22) inString = true;
    else if (byte === 0x7b || byte === 0x5b) {
      if (++open > depth) throw new RangeErrorType(`a value nests deeper than ${depth - 3} levels`);
    } else if (byte === 0x7d || byte === 0x5d) open--;
  }
  return wide === null ? bytes : widened(bytes, wide);
}

/** Write `.0` behind each of these integers; they come last first. */
function widened(bytes, wide) {
  let count = 0;
  for (let one = wide; one !== null; one = one.next) count++;
  const longer = new Bytes(bytes.length + 2 * count);
  let end = bytes.length, to = longer.length;
  for (let one = wide; one !== null; one = one.next) {
    to -= end - one.at;
    setBytes(longer, subarray(bytes, one.at, end), to);
    longer[--to] = 0x30;
    longer[--to] = 0x2e;
    end = one.at;
  }
  setBytes(longer, subarray(bytes, 0, end), 0);
  return longer;
}

/** JSON of a value; what JSON cannot say (undefined, a function) is null. */
function json(value) {
  return stringify(value) ?? "null";
}

function shortened(words, most) {
  return words.length > most ? `${slice(words, 0, most)}… (cut)` : words;
}

// --- calls

class ToolError extends ErrorType {
  constructor(error, stack) {
    super(text(error?.message));
    defineProperty(this, "code", { value: text(error?.code), enumerable: true });
    defineProperty(this, "stack", { value: `ToolError: ${this.message}${stack}`, writable: true, configurable: true });
  }
}
defineProperty(ToolError.prototype, "name", { value: "ToolError" });

const waiting = new Map();
let lastId = 0;

function ask(name, written) {
  const place = new ErrorType(); // of the call: its answer comes in another turn
  return new PromiseType((resolve, reject) => {
    const line = `,"method":"${name}","args":[${written()}]}`; // what throws here is told by the promise
    const id = lastId + 1;
    sayLater(`{"type":"call","id":${id}${line}`);
    lastId = id;
    mapSet(waiting, id, { resolve, reject, place });
  });
}

/** Where an error was made, as V8 says it behind name and message. It is put into words only when it is asked for. */
function frames(error) {
  const { stack } = error;
  const at = typeof stack === "string" ? indexOf(stack, "\n") : -1;
  return at < 0 ? "" : slice(stack, at);
}

function answered(message) {
  const one = mapGet(waiting, message.id);
  mapDelete(waiting, message.id);
  if (one === undefined) return;
  if (message.ok) one.resolve(message.value);
  else one.reject(new ToolError(message.error, frames(one.place)));
}

const amcp = freeze({
  __proto__: null,
  search: freeze((query, options) => ask("search", () => options === undefined ? json(query) : `${json(query)},${json(options)}`)),
  describe: freeze((names) => ask("describe", () => json(names))),
  run: freeze((name, args) => ask("run", () => `${json(name)},${args === undefined ? "{}" : json(args)}`)),
});

/** `tools.<server>.<tool>(arguments)` over the names that the job allows; any other name says how to find one. */
function proxies(names) {
  const tree = create(null);
  for (let at = 0; at < names.length; at++) {
    const name = names[at], dot = indexOf(name, ".");
    const run = freeze((args) => amcp.run(name, args));
    if (dot <= 0) tree[name] ??= run;
    else {
      const server = slice(name, 0, dot);
      if (typeof tree[server] !== "object") tree[server] = create(null);
      tree[server][slice(name, dot + 1)] = run;
    }
  }
  for (const server in tree) if (typeof tree[server] === "object") tree[server] = known(tree[server], `${server}.`);
  return known(tree, "");
}

function known(tools, above) {
  return new ProxyType(freeze(tools), {
    __proto__: null,
    get(target, key) {
      if (typeof key === "symbol" || key === "then" || key === "toJSON" || key in target) return target[key];
      throw new ErrorType(`no tool ${above}${key} may be called here: await amcp.search("what it should do") finds tools`);
    },
  });
}

// --- what there is not

class NotCapable extends ErrorType {}
defineProperty(NotCapable.prototype, "name", { value: "NotCapable" });

const VIA_TOOLS = "files, programs and networks are reached through tools: await amcp.search(…), await amcp.run(name, args)";
const ABSENT = [
  [VIA_TOOLS, "Deno process fetch WebSocket EventSource WebTransport Cache CacheStorage"],
  ["nothing is kept between runs: return a value", "caches localStorage sessionStorage Storage"],
  ["a program is one thread: await Promise.all(…) runs calls side by side", "Worker BroadcastChannel"],
  ["there is no compiler for it here: write JavaScript or TypeScript", "WebAssembly"],
  ["nobody is asked: take what you need from `input`", "alert confirm prompt"],
  [
    "a program does not see its host",
    "navigator Navigator GPU GPUAdapter GPUDevice OffscreenCanvas createImageBitmap LockManager close reportError",
  ],
];

/**
 * Put in the place of each capability that is none here something that says so, and what to use. Hygiene, no wall.
 *
 * Deno loads parts of itself later (setTimeout does), and these read the same names: Atomics has to stay for them.
 */
function removeAmbient() {
  for (const [hint, names] of ABSENT) {
    for (const name of names.split(" ")) {
      const refuse = () => {
        throw new NotCapable(`${name} is not available to a program; ${hint}`);
      };
      const traps = { __proto__: null, apply: refuse, construct: refuse, get: refuse, set: refuse, has: refuse };
      traps.getOwnPropertyDescriptor = traps.defineProperty = traps.deleteProperty = traps.ownKeys = refuse;
      const value = new ProxyType(function () {}, traps);
      defineProperty(root, name, { value, writable: false, enumerable: false, configurable: false });
    }
  }
}

function captureConsole() {
  const log = (level) => freeze((...words) => {
    let line = "";
    for (let at = 0; at < words.length; at++) {
      const word = words[at];
      line += `${at ? " " : ""}${typeof word === "string" ? word : inspect(word, { __proto__: null, colors: false, depth: 6 })}`;
    }
    say(`{"type":"log","level":"${level}","message":${stringify(toWellFormed(shortened(line, LOGGED)))}}`);
  });
  const nothing = freeze(() => {});
  const assert = (level) => freeze((held, ...words) => held || level("assertion failed:", ...words));
  const captured = { debug: log("debug"), info: log("info"), log: log("log"), warn: log("warn"), error: log("error") };
  captured.dir = captured.dirxml = captured.table = captured.group = captured.groupCollapsed = captured.log;
  captured.trace = captured.debug;
  captured.assert = assert(captured.error);
  const silent = "clear count countReset groupEnd profile profileEnd time timeEnd timeLog timeStamp";
  for (const name of silent.split(" ")) captured[name] = nothing;
  defineProperty(root, "console", { value: captured, writable: true, enumerable: false, configurable: true });
}

// --- the end

function attempt(get) {
  try {
    return get();
  } catch {
    return undefined;
  }
}

/** What was thrown, as name, message and stack; its getters may throw as well. */
function described(thrown, phase) {
  const isObject = typeof thrown === "object" && thrown !== null;
  let name = isObject ? attempt(() => thrown.name) : undefined;
  let message = isObject ? attempt(() => thrown.message) : attempt(() => text(thrown));
  let stack = isObject ? attempt(() => thrown.stack) : undefined;
  if (typeof name !== "string" || name === "") name = "Error";
  if (typeof message !== "string") message = attempt(() => inspect(thrown)) ?? "";
  if (typeof stack !== "string") stack = "";
  const at = stack.length > SHOWN ? indexOf(stack, message) : -1; // a long message must not push the frames out
  const [n, m, s] = [said(name), said(message), said(at < 0 ? stack : slice(stack, at + message.length))];
  return `{"name":${n},"message":${m},"stack":${s},"phase":"${phase}"}`;
}

/** JSON of words that are shown. The program's address holds the program: what is shown of it is its beginning. */
function said(words) {
  let kept = "";
  let rest = words;
  for (let at = indexOf(rest, SOURCE); at >= 0 && kept.length < SHOWN; at = indexOf(rest, SOURCE)) {
    const end = at + SOURCE.length;
    kept += slice(rest, 0, end);
    rest = slice(rest, end);
    const behind = exec(NO_BASE64, rest);
    rest = behind === null ? "" : slice(rest, behind.index);
  }
  return stringify(toWellFormed(shortened(kept + rest, SHOWN)));
}

let over = false;

function finish(line) {
  if (over) return;
  say(line);
  over = true;
  exit(0);
}

function fail(thrown, phase) {
  finish(`{"type":"result","ok":false,"error":${described(thrown, phase)}}`);
}

// --- the run

async function run(job) {
  const source = `${SOURCE}${toBase64(encode(`${HEAD}${job.code}\n}`))}`;
  depth = job.limits.depth;
  const tools = proxies(job.tools);
  listen("unhandledrejection", (event) => {
    event.preventDefault();
    fail(event.reason, "run");
  });
  listen("error", (event) => {
    event.preventDefault();
    fail(event.error, "run");
  });
  let program;
  try {
    program = await import(source);
  } catch (error) {
    fail(error, "load");
    return;
  }
  try {
    finish(`{"type":"result","ok":true,"value":${json(await program.default(amcp, tools, job.input))}}`);
  } catch (error) {
    fail(error, "run");
  }
}

async function main() {
  const chunk = new Bytes(CHUNK);
  let held = "";
  // Before the job is there: a child that waits has the time.
  removeAmbient();
  captureConsole();
  say('{"type":"ready"}');
  for (;;) {
    const count = await read(chunk);
    if (count === null) exit(0);
    const words = decode(subarray(chunk, 0, count)); // all of it is ASCII (core/jsonio.py): no character is cut
    let at = 0;
    for (let end = indexOf(words, "\n"); end >= 0; end = indexOf(words, "\n", at)) {
      const message = parse(held + slice(words, at, end));
      held = "";
      at = end + 1;
      if (message.type === "job") run(message);
      else answered(message);
    }
    held += slice(words, at);
  }
}

main();
