// Builds the script and the style of the pages into the Python package, and the licences of the libraries inside it.
// `node build.mjs` writes; `node build.mjs --check` compares with what is committed, and writes nothing.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const TARGET = join(HERE, "../src/foretrace/pages/bundle");

// A page holds no address and no way to write markup. d3 names namespaces by addresses, which are put together when it runs, and
// selections can set markup, which becomes text.
const onlyText = {
  name: "only-text",
  setup(builder) {
    builder.onLoad({ filter: /node_modules[\\/]d3-.*\.m?js$/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8")
        .replace(/"http:\/\/([^"]+)"/g, '"http:||$1".replace("||", "//")')
        .replaceAll("innerHTML", "textContent"),
    }));
  },
};

const made = await build({
  absWorkingDir: HERE,
  entryPoints: ["src/pages/main.ts"],
  outdir: TARGET,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none", // the notice has them
  metafile: true,
  write: false,
  logLevel: "warning",
  plugins: [onlyText], // styles that a view imports become the style of its pages
});

const files = new Map(made.outputFiles.map((file) => [basename(file.path), file.text]));
const inputs = Object.values(made.metafile.outputs).flatMap((output) => Object.entries(output.inputs));
files.set("NOTICE.txt", notice(inputs.filter(([, { bytesInOutput }]) => bytesInOutput).map(([path]) => path)));

// The licence of each library that a page contains.
function notice(inputs) {
  const inside = inputs.map((path) => path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1]).filter(Boolean);
  const texts = [...new Set(inside)].sort().map((name) => {
    const folder = join(HERE, "node_modules", name),
      { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
  });
  const head = "The scripts in this folder are built from web/ and contain parts of these libraries.\n";
  return [head, ...texts].join(`\n${"-".repeat(80)}\n\n`);
}

const committed = (name) => {
  try {
    return readFileSync(join(TARGET, name), "utf8");
  } catch {
    return null;
  }
};
if (process.argv.includes("--check")) {
  const there = readdirSync(TARGET),
    differs = [...files.keys()].filter((name) => files.get(name) !== committed(name));
  const strange = there.filter((name) => !files.has(name));
  if (differs.length || strange.length) {
    console.error(`web: the committed bundle is not what web/ builds (${[...differs, ...strange].join(", ")}): run \`make bundle\``);
    process.exit(1);
  }
  console.log(`web: ${files.size - 1} files are what web/ builds`);
} else {
  for (const [name, text] of files) {
    writeFileSync(join(TARGET, name), text);
    const bytes = Buffer.byteLength(text);
    console.log(`${name}: ${(bytes / 1e3).toFixed(1)} kB, ${(gzipSync(text, { level: 9 }).length / 1e3).toFixed(1)} kB compressed`);
  }
}
