// The panel below the timeline or at the right of the window, as large as a person makes it; hidden while nothing is selected.

import { button, make } from "../../base/dom";

type Side = "below" | "right";
const LEAST = 110; // pixels
const MOST = 0.7; // of the window
const STEP = 24; // pixels that an arrow key moves the edge
const FIRST: Record<Side, number> = { below: 230, right: 420 };
const NARROW = 900; // pixels: a narrower window has no room at its right

export class Dock {
  readonly node: HTMLElement;
  private readonly grip = make("div", { class: "grip", role: "separator", tabindex: 0, "aria-label": "Size of the panel" });
  private readonly turn = button("", () => this.dock(this.side === "below" ? "right" : "below"), { class: "dock" });
  private readonly size = { ...FIRST };
  private side: Side = "below";

  constructor(inside: HTMLElement, close: () => void) {
    const leave = button("×", close, { "aria-label": "Close: nothing is selected", title: "Close (Esc)" });
    const tools = make("div", { class: "tools" }, this.turn, leave);
    this.node = make("section", { class: "panel docked", "aria-label": "Selection" }, this.grip, tools, inside);
    this.grip.addEventListener("pointerdown", (event) => this.drag(event));
    this.grip.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("resize", () => this.place());
    this.dock("below");
  }

  show(isSomething: boolean): void {
    if (this.node.hidden === !isSomething) return;
    this.node.hidden = !isSomething;
    this.tell();
  }

  private dock(side: Side): void {
    this.side = side;
    this.place();
    this.tell();
  }

  // Where there is no room at the right, it is below.
  private place(): void {
    const side = window.innerWidth < NARROW ? "below" : this.side;
    const whole = side === "below" ? window.innerHeight : window.innerWidth;
    const size = Math.round(Math.min(Math.max(this.size[side], LEAST), whole * MOST));
    this.node.dataset.side = side;
    this.node.style.setProperty("--size", `${size}px`);
    this.grip.setAttribute("aria-orientation", side === "below" ? "horizontal" : "vertical");
    this.grip.setAttribute("aria-valuenow", String(size));
    this.turn.textContent = side === "below" ? "dock right" : "dock below";
    this.turn.hidden = window.innerWidth < NARROW;
    const { style } = document.documentElement;
    style.setProperty("--panel-below", side === "below" && !this.node.hidden ? `${size}px` : "0px");
    style.setProperty("--panel-right", side === "right" && !this.node.hidden ? `${size}px` : "0px");
  }

  // Others have less room now, or more.
  private tell(): void {
    this.place();
    window.dispatchEvent(new Event("resize"));
  }

  private resize(by: number): void {
    const side = this.node.dataset.side as Side;
    const { height, width } = this.node.getBoundingClientRect();
    this.size[side] = (side === "below" ? height : width) + by;
    this.tell();
  }

  private drag(event: PointerEvent): void {
    event.preventDefault();
    const at = (each: PointerEvent) => (this.node.dataset.side === "below" ? each.clientY : each.clientX);
    let last = at(event);
    const move = (each: PointerEvent) => {
      this.resize(last - at(each));
      last = at(each);
    };
    this.grip.setPointerCapture(event.pointerId);
    this.grip.addEventListener("pointermove", move);
    for (const name of ["pointerup", "pointercancel"] as const) {
      this.grip.addEventListener(name, () => this.grip.removeEventListener("pointermove", move), { once: true });
    }
  }

  private key(event: KeyboardEvent): void {
    const by = { ArrowUp: STEP, ArrowLeft: STEP, ArrowDown: -STEP, ArrowRight: -STEP }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.resize(by);
  }
}
