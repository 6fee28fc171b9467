// Which two traces of several the changes are about.

import { make } from "../base/dom";
import type { Context } from "../core/context";

// Which two traces; none to choose with two.
export function pairChoice(context: Context): HTMLElement | null {
  const { compared, store, traces } = context;
  if (!compared || compared.pairs.length < 2) return null;
  const titles = traces.map(({ entry }) => entry.title);
  const options = compared.pairs.map(({ a, b }, at) => make("option", { value: at }, `${titles[b]} against ${titles[a]}`));
  const select = make("select", { "aria-label": "Which traces are compared" }, options);
  const follow = () => {
    select.value = String(pairNumber(context));
  };
  follow();
  store.on(["pair"], follow);
  select.addEventListener("change", () => store.set({ pair: Number(select.value) }));
  return select;
}

export function pairNumber({ compared, store }: Context): number {
  return store.state.pair < (compared?.pairs.length ?? 0) ? store.state.pair : 0;
}
