// Runs the unit tests: builds each file of test/ into a temporary folder, and gives them to Node's own runner.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "foretrace-web-"));
try {
  const tests = readdirSync(join(HERE, "test")).filter((name) => name.endsWith(".test.ts"));
  await build({
    absWorkingDir: HERE,
    entryPoints: tests.map((name) => `test/${name}`),
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    sourcemap: "inline",
    loader: { ".css": "empty" },
  });
  const files = readdirSync(folder).map((name) => join(folder, name));
  const ran = spawnSync(process.execPath, ["--enable-source-maps", "--test", "--test-reporter=dot", ...files], {
    cwd: HERE,
    stdio: "inherit",
  });
  process.exitCode = ran.status ?? 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
