// One allocation: its size, its life, what it is, and the stacks that made and freed it.

import "../panel/panel.css";
import { make, nameOf, replace } from "../../base/dom";
import { bytesText, numberText, percentText, timeText } from "../../base/units";
import type { Band, Grouping, Part } from "../../core/livestack";
import type { Columns } from "../../data/columns";
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
      owner = modules[of("owner")];
    this.node.scrollTop = 0;
    replace(
      this.node,
      head(`${bytesText(size)} of ${drawing.categories[of("is")]}`, make("p", {}, nameOf(lines[of("named")]))),
      columns(
        titled(
          "Life",
          pairs([
            ["size", `${bytesText(size)} (${numberText(size)} bytes), ${percentText(size / drawing.peak_bytes)} of the peak`],
            ["allocated", allocatedText(drawing, boxes, box)],
            ["freed", freedText(drawing, boxes, box)],
            ["live for", lifeText(drawing, boxes, box)],
            ["category", drawing.categories[of("is")]],
            ["pass", of("start") < 0 ? "" : drawing.ran[of("ran")]],
            ["line", lines[of("named")]],
            ["module", owner ?? ""],
          ]),
        ),
        titled("Allocated by, the innermost frame first", this.chain(part, of("stack"))),
        of("freed_by") >= 0 ? titled("Freed by", this.chain(part, of("freed_by"))) : null,
      ),
    );
  }

  // All that are too small to be drawn one by one.
  showSmaller({ bytes, count, group }: Band, grouping: Grouping, { stack }: Part): void {
    const name = grouping.names[group];
    replace(
      this.node,
      head(`${bytesText(bytes)} in ${numberText(count)} smaller allocations`, make("p", {}, nameOf(name))),
      make(
        "p",
        { class: "faint" },
        `The page has ${numberText(stack.boxes.size.length)} of ${numberText(this.drawing.allocations)} allocations one by one.`,
      ),
    );
  }

  // The frames of Python, and ops; other C++ is folded, where there is anything else.
  private chain(part: Part, inner: number): HTMLElement {
    const { above, name, kind } = part.frames,
      frames: number[] = [];
    for (let frame = inner; frame >= 0; frame = above[frame]) frames.push(frame);
    const list = (chosen: number[]) =>
      make(
        "ol",
        { class: "frames" },
        chosen.map((frame) => make("li", {}, nameOf(part.drawn.stacks.names[name[frame]]))),
      );
    const known = frames.filter((frame) => kind[frame] !== NATIVE);
    if (!frames.length) return make("p", { class: "faint" }, "No stack is known.");
    if (!known.length || known.length === frames.length) return list(frames);
    const all = make("details", {}, make("summary", {}, `all ${numberText(frames.length)} frames, with C++`), list(frames));
    return make("div", {}, list(known), all);
  }
}

function allocatedText(_: DeviceDrawing, boxes: Columns, box: number): string {
  if (boxes.start[box] < 0) return "before the history began";
  return `at ${timeText(boxes.start_ns[box])}, event ${numberText(boxes.start[box])}`;
}

function freedText({ events }: DeviceDrawing, boxes: Columns, box: number): string {
  if (boxes.end[box] >= events) return "not in the history";
  return `at ${timeText(boxes.end_ns[box])}, event ${numberText(boxes.end[box])}`;
}

function lifeText({ events }: DeviceDrawing, boxes: Columns, box: number): string {
  const life = timeText(boxes.end_ns[box] - boxes.start_ns[box]);
  return boxes.start[box] < 0 || boxes.end[box] >= events ? `at least ${life}` : life;
}
