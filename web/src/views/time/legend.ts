// What the colours mean. A group is a button: it shows its kernels, and makes all else faint.

import { button, make, replace } from "../../base/dom";
import type { Context } from "../../core/context";

const HOST: Record<string, string> = {
  cpu_op: "op",
  cuda_runtime: "launch or other call",
  python_function: "Python frame",
  overhead: "profiler overhead",
};

export function legend(context: Context): HTMLElement {
  const node = make("ul", { class: "legend", "aria-label": "Colours" });
  const show = () => {
    replace(
      node,
      gpuGroups(context).map((group) => make("li", {}, groupButton(context, group))),
      hostGroups(context).map((group) => make("li", {}, swatch(context, group), HOST[group])),
    );
  };
  context.store.on(["filter"], show);
  show();
  return node;
}

// The groups of GPU work, those that take longest first.
function gpuGroups({ traces }: Context): string[] {
  const times = new Map<string, number>();
  for (const { facts } of traces) {
    for (const { role, total_ns: time } of facts.kernels) times.set(role, (times.get(role) ?? 0) + (time ?? 0));
    const totals = facts.look?.totals;
    if (totals && totals.memcpys + totals.memsets) times.set("copy", times.get("copy") ?? 0);
  }
  return [...times.keys()].sort((a, b) => (times.get(b) ?? 0) - (times.get(a) ?? 0));
}

function hostGroups({ traces }: Context): string[] {
  const there = new Set(traces.flatMap(({ facts }) => facts.lanes.map((lane) => lane.kind)));
  const isThere = (group: string) => (group === "python_function" ? there.has("python") : there.has("thread"));
  return Object.keys(HOST).filter(isThere);
}

function groupButton(context: Context, group: string): HTMLElement {
  const { store } = context;
  const isOn = store.state.filter === group;
  const press = () => store.set({ filter: isOn ? "" : group });
  return button([swatch(context, group), group.replaceAll("_", " ")], press, { "aria-pressed": String(isOn) });
}

function swatch({ colours }: Context, group: string): HTMLElement {
  const node = make("span", { class: "swatch" });
  node.style.background = colours.group(group);
  return node;
}
