// The address of a view: read when the page opens and when a person changes it, replaced when the view rests.

import { fromAddress, toAddress } from "../core/address";
import { INITIAL, type State, type Store } from "../core/store";

const REST_MS = 200;
const KEYS = Object.keys(INITIAL) as (keyof State)[];

export function followAddress(store: Store): void {
  let waiting = 0;
  const read = () => store.set(fromAddress(location.hash));
  const write = () => history.replaceState(null, "", `#${toAddress(store.state)}`);
  if (location.hash) read();
  window.addEventListener("hashchange", read);
  store.on(KEYS, () => {
    clearTimeout(waiting);
    waiting = window.setTimeout(write, REST_MS);
  });
}
