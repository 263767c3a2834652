// Speaks MCP 2025-06-18 over stdio. What it receives, it also writes to a file, so that a review can show the receipt.
"use strict";
const fs = require("node:fs");
const readline = require("node:readline");

const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");

const echo = {
  name: "echo",
  title: "Echo",
  description: "Returns the text that it is given.",
  inputSchema: {
    type: "object",
    properties: { text: { type: "string", maxLength: 1000 } },
    required: ["text"],
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true, openWorldHint: false },
};

const answers = {
  initialize: () => ({
    protocolVersion: "2025-06-18",
    capabilities: { tools: { listChanged: false } },
    serverInfo: { name: "fumehood-demo-server", title: "Demo server", version: "1.0.0" },
    instructions: "One tool, echo. Nothing is read, nothing is sent anywhere.",
  }),
  ping: () => ({}),
  "tools/list": () => ({ tools: [echo] }),
  "tools/call": ({ name, arguments: given }) => {
    if (name !== echo.name) throw Object.assign(new Error("Unknown tool"), { code: -32602 });
    const fits = typeof given?.text === "string" && given.text.length <= 1000;
    return { content: [{ type: "text", text: fits ? given.text : "text: a string of at most 1000" }], isError: !fits };
  },
};

const answer = ({ id, method, params }) => {
  if (id === undefined) return; // a notification
  if (!Object.hasOwn(answers, method)) {
    say({ id, error: { code: -32601, message: "Method not found" } });
    return;
  }
  try {
    say({ id, result: answers[method](params ?? {}) });
  } catch (error) {
    say({ id, error: { code: error.code ?? -32603, message: error.message } });
  }
};

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  fs.appendFileSync("received.jsonl", line + "\n");
  let message;
  try {
    message = JSON.parse(line);
  } catch {
    say({ id: null, error: { code: -32700, message: "Parse error" } });
    return;
  }
  answer(message);
});
