// One allocation: its size, its life, what it is, and the stacks that made and freed it.

import "../panel/panel.css";
import { listOf, make, nameOf, replace } from "../../base/dom";
import { bytesText, numberText, percentText, timeText } from "../../base/units";
import type { Band, Grouping, Part } from "../../core/livestack";
import type { DeviceDrawing } from "../../data/documents";
import { columns, head, pairs, titled } from "../panel/parts";

const NATIVE = 3; // the kind of a frame of C++

export class AllocationPanel {
  readonly node = make("section", { class: "panel", "aria-label": "Allocation", "aria-live": "polite", tabindex: "0" });

  constructor(private readonly drawing: DeviceDrawing) {
    replace(this.node, make("p", { class: "faint" }, "Nothing is chosen. Click an allocation, or a row of the table below."));
  }

  show(part: Part, box: number): void {
    const { drawing } = this,
      { boxes } = part.stack,
      { lines, modules } = part.drawn,
      of = (column: string) => boxes[column][box];
    const size = of("size"),
      owner = modules[of("owner")],
      [begins, ends] = [of("start") >= 0, of("end") < drawing.events],
      moment = (edge: string) => `at ${timeText(of(`${edge}_ns`))}, event ${numberText(of(edge))}`;
    this.node.scrollTop = 0;
    replace(
      this.node,
      head(`${bytesText(size)} of ${drawing.categories[of("is")]}`, make("p", {}, nameOf(lines[of("named")]))),
      columns(
        titled(
          "Life",
          pairs([
            ["size", `${bytesText(size)} (${numberText(size)} bytes), ${percentText(size / drawing.peak_bytes)} of the peak`],
            ["allocated", begins ? moment("start") : "before the history began"],
            ["freed", ends ? moment("end") : "not in the history"],
            ["live for", `${begins && ends ? "" : "at least "}${timeText(of("end_ns") - of("start_ns"))}`],
            ["category", drawing.categories[of("is")]],
            ["pass", begins ? drawing.ran[of("ran")] : ""],
            ["line", lines[of("named")]],
            ["module", owner ?? ""],
          ]),
        ),
        titled("Allocated by, the innermost frame first", this.chain(part, of("stack"))),
        of("freed_by") >= 0 ? titled("Freed by", this.chain(part, of("freed_by"))) : null,
      ),
    );
  }

  showSmaller({ bytes, count, group }: Band, grouping: Grouping, { stack }: Part): void {
    const name = grouping.names[group];
    const said = `The page has ${numberText(stack.boxes.size.length)} of ${numberText(this.drawing.allocations)} allocations one by one.`,
      title = `${bytesText(bytes)} in ${numberText(count)} smaller allocations`;
    replace(this.node, head(title, make("p", {}, nameOf(name))), make("p", { class: "faint" }, said));
  }

  // The frames of Python, and ops; other C++ is folded, where there is anything else.
  private chain(part: Part, inner: number): HTMLElement {
    const { above, name, kind } = part.frames,
      frames: number[] = [];
    for (let frame = inner; frame >= 0; frame = above[frame]) frames.push(frame);
    const item = (frame: number) => make("li", {}, nameOf(part.drawn.stacks.names[name[frame]])),
      list = (chosen: number[]) => listOf("ol", { class: "frames" }, chosen, item);
    const known = frames.filter((frame) => kind[frame] !== NATIVE);
    if (!frames.length) return make("p", { class: "faint" }, "No stack is known.");
    if (!known.length || known.length === frames.length) return list(frames);
    const all = make("details", {}, make("summary", {}, `all ${numberText(frames.length)} frames, with C++`), list(frames));
    return make("div", {}, list(known), all);
  }
}
