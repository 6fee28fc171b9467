// The page of `foretrace memory`: what the terminal says, live bytes over time, the stacks of the peak, and its tables.

import { byId, make, replace } from "../base/dom";
import { bytesText } from "../base/units";
import { type Box, Boxes } from "../core/flame";
import { unpack } from "../data/columns";
import type { DrawnPart, PeakFlame, SnapshotPage } from "../data/documents";
import { Server } from "../data/server";
import { FlameGraph } from "../views/flame/flamegraph";
import { snapshotView } from "../views/memory/snapshot";
import { choice } from "../views/page/plotting";

async function peakFlame(flame: PeakFlame): Promise<HTMLElement> {
  const boxes = new Boxes(await unpack(flame.boxes), flame),
    controls = make("div", { class: "controls" }),
    room = make("div");
  const passes = boxes.passesWithTime().map((pass) => boxes.passes[pass]);
  let focus: Box | null = null,
    pass = "";
  const show = () => graph.show(boxes, focus, pass, "Flame graph of the bytes at the peak");
  const widen = (box: Box | null) => {
    focus = box;
    show();
  };
  const graph = new FlameGraph(room, {
    measure: () => "bytes at the peak",
    text: bytesText,
    left: () => (flame.left_out_bytes ? ` ${bytesText(flame.left_out_bytes)} in the smallest stacks are not in the page.` : ""),
    choose: (box) => widen(box.above ? box : null),
    back: () => widen(null),
  });
  const kinds = ["", ...passes].map((value) => ({ value, text: value || "all" }));
  const choose = (value: string) => {
    pass = value;
    widen(null);
  };
  replace(controls, choice("Category", passes.length > 1 ? kinds : [], pass, choose));
  show();
  const words =
    "The stacks of what is live at the peak, outermost first; the width is bytes. The lines by which torch calls a module are left out, " +
    "and C++ where there is Python; elsewhere it has ops and autograd's nodes. Choose a box to widen it; the first box goes back.";
  const title = make("h3", {}, "Stacks of the peak");
  const about = make("p", { class: "faint" }, words);
  return make("section", { class: "plots", "aria-label": "Stacks of the peak" }, title, controls, room, about);
}

async function show({ devices, served }: Pick<SnapshotPage, "devices" | "served">, number: number): Promise<void> {
  const drawing = devices[number],
    server = new Server();
  const ask = (from: number, to: number) => server.ask<DrawnPart>(`device/${number}/part?from=${from}&to=${to}`);
  const view = await snapshotView(drawing, served ? ask : null);
  const choices = devices.map(({ title }, at) => ({ value: String(at), text: title })),
    which = choice("Memory of", choices, String(number), (value) => show({ devices, served }, Number(value)));
  replace(byId("views"), which, view.top, await peakFlame(drawing.flame), view.tables);
  Object.assign(window, { memory: view }); // for the curious, and for the tests
}

export async function showSnapshot(data: SnapshotPage): Promise<undefined> {
  await show(data, 0);
}
