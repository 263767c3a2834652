// What a model might write: several calls of tools in one round trip, and two attempts at more than its tools give.
const paths = ["README.md", "src/app.py", "notes/report.md"];
const read = await Promise.all(paths.map((path) => tools.workspace.read_file({ path })));
const files = read.map(({ structured }, at) => ({
  path: paths[at],
  lines: structured.total_lines,
  credentials_replaced: structured.redaction.count,
  worded_like_instructions: structured.signals.length > 0,
}));

async function refused(attempt: () => Promise<unknown>): Promise<string> {
  try {
    await attempt();
    return "it worked";
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
}
return {
  files,
  read_env: await refused(() => tools.workspace.read_file({ path: ".env" })),
  fetch: await refused(() => fetch("http://127.0.0.1:8080/")),
};
