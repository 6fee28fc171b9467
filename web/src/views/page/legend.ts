// What the colours mean: groups of GPU work, what the host does, and why a GPU is idle.

import { hatch } from "../../base/colours";
import { button, make, replace } from "../../base/dom";
import type { Context } from "../../core/context";

// Why a GPU is idle, in the fewest words; `IdleTime.causes` has the sentence.
export const CAUSES: Record<string, string> = {
  launch: "host issues ops",
  host: "host runs no op",
  sync: "host waited for it",
  copy: "host copies",
  queue: "work is in the queue",
  profiler: "profiler",
  capture: "graph capture",
  unknown: "launch not recorded",
  unproven: "work not recorded",
};

const HOST: Record<string, string> = {
  cpu_op: "op",
  launch_call: "launch",
  wait_call: "wait",
  copy_call: "copy call",
  other_call: "other call",
  python_function: "Python frame",
  overhead: "profiler overhead",
};

// A group of GPU work is a button: it shows its kernels, and makes all else faint.
export function legend(context: Context): HTMLElement {
  const node = make("ul", { class: "legend", "aria-label": "Colours" });
  const item = (text: string, colour: string, background = colour) => make("li", {}, swatch(background, colour), text);
  const { colours, store } = context;
  const groupButton = (group: string) => {
    const isOn = store.state.filter === group,
      press = () => store.set({ filter: isOn ? "" : group });
    return button([swatch(colours.of(group)), group.replaceAll("_", " ")], press, { "aria-pressed": String(isOn) });
  };
  store.follow(["filter"], () => {
    replace(
      node,
      gpuGroups(context).map((group) => make("li", {}, groupButton(group))),
      idleCauses(context).map((cause) => item(`idle: ${CAUSES[cause] ?? cause}`, colours.idle(cause), hatch(cause, colours.idle(cause)))),
      hostGroups(context).map((group) => item(HOST[group], colours.of(group))),
    );
  });
  return node;
}

export function gpuGroups({ traces }: Context): string[] {
  const times = new Map<string, number>();
  for (const { facts } of traces) {
    for (const { role, total_ns: time } of facts.kernels) times.set(role, (times.get(role) ?? 0) + (time ?? 0));
    if (facts.groups.includes("copy")) times.set("copy", times.get("copy") ?? 0);
  }
  return [...times.keys()].sort((a, b) => (times.get(b) ?? 0) - (times.get(a) ?? 0));
}

function idleCauses({ traces }: Context): string[] {
  const parts = traces.flatMap(({ entry }) => entry.answers?.bases.at(-1)?.parts ?? []); // a job has no answers
  const found = parts.filter(({ kind }) => kind === "idle");
  return [...new Set(found.sort((a, b) => b.share - a.share).map(({ name }) => name))];
}

function hostGroups({ traces }: Context): string[] {
  const there = new Set(traces.flatMap(({ facts }) => facts.lanes.map((lane) => lane.kind)));
  const calls = new Set(traces.flatMap(({ entry }) => Object.values(entry.call_groups ?? {})));
  const isThere = (group: string) => {
    if (group.endsWith("_call")) return calls.has(group);
    return group === "python_function" ? there.has("python") : there.has("thread");
  };
  return Object.keys(HOST).filter(isThere);
}

// `colour` is what a picture shows, where the background is no single colour.
export function swatch(background: string, colour = background): HTMLElement {
  const node = make("span", { class: "swatch", "data-colour": colour });
  node.style.background = background;
  return node;
}
