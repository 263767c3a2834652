// Programs of `fumehood code selftest`. Each is run twice: in a child as it runs programs, with every ambient capability
// of Deno given back to it, so that the walls alone hold; and in a Deno without walls, where it has to succeed.
//
// `//== NAME: KIND`: `leak` returns a mark that was planted on this machine; `bound` takes more than it may, and ends in
// the state behind `->`; `works` returns what stands behind `->` as JSON.

//== computes: works -> {"sum":6}
const numbers: number[] = [1, 2, 3]; return { sum: numbers.reduce((a, b) => a + b, 0) };

//== calls-a-tool: works -> {"echo":{"a":1}}
return await tools.echo({ a: 1 });

//== calls-in-parallel: works -> 40
return (await Promise.all(Array.from({ length: 40 }, (_, n) => tools.echo({ n })))).length;

//== deno-read: leak
return Deno.readTextFileSync("@FOLDER@/secret.txt");

//== deno-open: leak
const file = await Deno.open("@FOLDER@/secret.txt"); const bytes = new Uint8Array(99); await file.read(bytes); return new TextDecoder().decode(bytes);

//== node-read: leak
return (await import("node:fs")).readFileSync("@FOLDER@/secret.txt", "utf8");

//== builtin-read: leak
return process.getBuiltinModule("node:fs").readFileSync("@FOLDER@/secret.txt", "utf8");

//== import-text: leak
return (await import("file://@FOLDER@/secret.txt", { with: { type: "text" } })).default;

//== import-json: leak
return (await import("file://@FOLDER@/secret.json", { with: { type: "json" } })).default.mark;

//== import-module: leak
return (await import("file://@FOLDER@/secret.js")).default;

//== import-by-function: leak
return (await new Function(`return import("file://@FOLDER@/secret.js")`)()).default;

//== import-through-data: leak
return (await import("data:text/javascript," + encodeURIComponent(`import x from "file://@FOLDER@/secret.js"; export default x`))).default;

//== worker-read: leak
const source = `import x from "file://@FOLDER@/secret.js"; postMessage(x)`;
const worker = new Worker("data:text/javascript," + encodeURIComponent(source), { type: "module" });
return await new Promise((done, fail) => { worker.onmessage = (said) => done(said.data); worker.onerror = (error) => { error.preventDefault(); fail(error.message); }; });

//== fetch: leak
return await (await fetch("http://127.0.0.1:@PORT@/")).text();

//== deno-connect: leak
const reached = await Deno.connect({ hostname: "127.0.0.1", port: @PORT@ }); return await new Response(reached.readable).text();

//== node-connect: leak
return await new Promise((done, fail) => { const socket = process.getBuiltinModule("net").connect(@PORT@, "127.0.0.1"); socket.on("data", (data) => done(`${data}`)); socket.on("error", fail); });

//== deno-environment: leak
return Deno.env.get("FUMEHOOD_MARK");

//== node-environment: leak
return process.env.FUMEHOOD_MARK;

//== proc-environment: leak
return Deno.readTextFileSync("/proc/self/environ");

//== deno-command: leak
return new TextDecoder().decode((await new Deno.Command("@DENO@", { args: ["eval", "console.log(Deno.readTextFileSync('@FOLDER@/secret.txt'))"] }).output()).stdout);

//== node-command: leak
return process.getBuiltinModule("child_process").execFileSync("@DENO@", ["eval", "console.log(Deno.readTextFileSync('@FOLDER@/secret.txt'))"]).toString();

//== link: leak
Deno.symlinkSync("@FOLDER@/secret.txt", "@FOLDER@/link"); return Deno.readTextFileSync("@FOLDER@/link");

//== write: leak
Deno.writeTextFileSync("@FOLDER@/written", "by a program"); return Deno.readTextFileSync("@FOLDER@/secret.txt");

//== database: leak
const { DatabaseSync } = process.getBuiltinModule("sqlite"); const base = new DatabaseSync("@FOLDER@/base"); base.exec("CREATE TABLE t(a)"); return Deno.readTextFileSync("@FOLDER@/secret.txt");

//== computes-on: bound -> timeout_cpu
let sum = 0; for (let i = 0; i < 3e8; i++) sum += i; return sum;

//== array-buffers: bound -> out_of_memory
const kept = []; for (let i = 0; i < 15; i++) kept.push(new Uint8Array(20e6).fill(1)); return kept.length;

//== shared-array-buffers: bound -> out_of_memory
const kept = []; for (let i = 0; i < 15; i++) kept.push(new Uint8Array(new SharedArrayBuffer(20e6)).fill(1)); return kept.length;

//== blobs: bound -> out_of_memory
const kept = []; for (let i = 0; i < 15; i++) kept.push(new Blob([new Uint8Array(20e6).fill(1)])); return kept.length;
