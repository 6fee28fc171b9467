// What a page has no room for, said where it would be seen.

import { make, nameOf } from "../base/dom";
import { numberText } from "../base/units";
import type { Context } from "../core/context";

export function leftOut({ traces }: Context): HTMLElement | null {
  const lines = traces
    .filter(({ facts }) => facts.leftOut)
    .map(({ facts }) =>
      make(
        "p",
        { class: "faint" },
        traces.length > 1 ? [nameOf(facts.title), ": "] : null,
        `${numberText(facts.leftOut)} events are left out to keep this page small, GPU work last of all; foretrace serve shows every event.`,
      ),
    );
  return lines.length ? make("div", { class: "leftout" }, lines) : null;
}
