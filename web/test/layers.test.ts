// One direction: a folder of src/ imports from itself and from those before it. Everything from a trace stays text.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const LAYERS = ["base", "data", "core", "views", "lessons", "pages"];
const MARKUP = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|srcdoc/;
const modules = readdirSync("src", { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".ts"));

function importsOf(path: string): string[] {
  const found = readFileSync(`src/${path}`, "utf8").matchAll(/from "(\.[^"]+)"/g);
  return Array.from(found, ([, name]) => new URL(name, `file:///${path}`).pathname.slice(1));
}

test("imports go one way", () => {
  for (const path of modules) {
    const own = LAYERS.indexOf(path.split("/")[0]);
    assert.ok(own >= 0, `${path} is in no layer`);
    for (const other of importsOf(path)) {
      assert.ok(LAYERS.indexOf(other.split("/")[0]) <= own, `${path} imports ${other}`);
    }
  }
});

test("there is no circle", () => {
  const done = new Set<string>();
  const visit = (module: string, above: string[]) => {
    assert.ok(!above.includes(module), `circle: ${[...above, module].join(" > ")}`);
    if (done.has(module)) return;
    for (const other of importsOf(`${module}.ts`)) visit(other, [...above, module]);
    done.add(module);
  };
  for (const path of modules) visit(path.slice(0, -".ts".length), []);
});

test("no module writes markup", () => {
  for (const path of modules) assert.doesNotMatch(readFileSync(`src/${path}`, "utf8"), MARKUP, path);
});
