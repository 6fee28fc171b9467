// What is selected, as it is drawn: an event with its launch and what it launched, or the kernels of a finding.

import type { Context } from "../../core/context";
import { placed } from "../../core/places";
import { Events } from "../../data/events";
import type { Range } from "../../data/source";

export class Selected {
  trace = 0;
  event = -1;
  related: Events | null = null; // the event, its callers, its launch, what it launched

  constructor(
    private readonly context: Context,
    private readonly redraw: () => void,
  ) {}

  // To be called when the selection changes: true when the source has answered about a new event.
  async load(): Promise<boolean> {
    const { selection } = this.context.store.state;
    const now = selection?.kind === "event" ? selection : { trace: 0, event: -1 };
    if (now.trace === this.trace && now.event === this.event) return false;
    this.trace = now.trace;
    this.event = now.event;
    this.related = null;
    const shown = this.context.traces[now.trace];
    if (!shown || now.event < 0) return false;
    const columns = await shown.source.details(now.event).catch(() => null);
    if (this.event !== now.event || this.trace !== now.trace) return false;
    this.related = columns && new Events(shown.facts, columns);
    this.redraw();
    return true;
  }

  get at(): number {
    return this.related?.find(this.event) ?? -1;
  }

  // The range of what is selected, in shared time; null where nothing is, or where it is not known yet.
  range(): Range | null {
    const { store, traces } = this.context;
    const { selection } = store.state;
    if (selection?.kind === "range") return selection.range;
    if (selection?.kind === "finding") {
      const frame = placed(traces[selection.trace], selection.rule)?.place.frame;
      const { zero } = traces[selection.trace] ?? { zero: 0 };
      return frame ? { from: frame[0] - zero, to: frame[1] - zero } : null;
    }
    const { related, at } = this;
    if (!related || at < 0) return null;
    const from = related.start[at] - traces[this.trace].zero;
    return { from, to: from + related.length[at] };
  }
}
