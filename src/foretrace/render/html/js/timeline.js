// The timeline: lanes of events on a canvas. Threads above, streams below; drag or A D to move, Ctrl+wheel or W S to zoom.

import { timeText } from "./units.js";

const AXIS = 24, HEAD = 18, ROW = 18, GAP = 6;
const MARK_SIGN = { changed: "≠ ", new: "+ ", gone: "− " };
const MOST_LINKS = 300;

export class Timeline {
  // `zero` is the time that the axis counts from; `on.select(at)` and `on.view(from, to)` tell others what happened here.
  constructor(canvas, facts, colours, on, zero = 0) {
    Object.assign(this, { canvas, facts, colours, on, zero, events: null, selected: -1, selectedEvent: -1, matches: null, frames: [] });
    this.layOut();
    this.show(0, facts.end);
    this.listen();
    new ResizeObserver(() => this.redraw()).observe(canvas.parentElement);
  }

  layOut() {
    this.laneTop = [];
    let y = AXIS;
    for (const lane of this.facts.lanes) {
      this.laneTop.push(y);
      y += HEAD + lane.rows * ROW + GAP;
    }
    this.height = y;
    this.canvas.style.height = `${y}px`;
  }

  setEvents(events) {
    this.events = events;
    this.selected = events.find(this.selectedEvent);
    this.redraw();
  }

  show(from, to) {
    const least = 20;
    const span = Math.min(Math.max(to - from, least), this.facts.end * 1.2 + least);
    const middle = (from + to) / 2;
    this.from = middle - span / 2;
    this.to = middle + span / 2;
    this.redraw();
  }

  // The same, when a person moved it: others may follow.
  move(from, to) {
    this.show(from, to);
    this.on.view(this.from, this.to);
  }

  zoom(factor, at = (this.from + this.to) / 2) {
    this.move(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  pan(part) {
    const shift = (this.to - this.from) * part;
    this.move(this.from + shift, this.to + shift);
  }

  select(at, bringIntoView = false) {
    this.selected = at;
    this.selectedEvent = at >= 0 ? this.events.event[at] : -1;
    this.links = at >= 0 && !this.events.isGpuWork(at) ? this.events.launchedBy(at).slice(0, MOST_LINKS) : [];
    if (at >= 0 && bringIntoView) this.reveal(at);
    this.redraw();
    this.on.select(at);
  }

  // Move no more than is needed to see an event, and zoom in when it would be too small to see.
  reveal(at) {
    const { start, length } = this.events;
    const small = length[at] < (this.to - this.from) / 50;
    const outside = start[at] < this.from || start[at] + length[at] > this.to;
    if (small || outside) {
      const span = small ? Math.max(length[at] * 12, 20) : Math.max(this.to - this.from, length[at] * 1.2);
      const middle = start[at] + length[at] / 2;
      this.move(middle - span / 2, middle + span / 2);
    }
  }

  highlight(names) {
    this.matches = names;
    this.redraw();
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.draw(); });
  }

  draw() {
    const begin = performance.now();
    const ratio = window.devicePixelRatio || 1;
    this.width = Math.max(this.canvas.parentElement.clientWidth, 200);
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.pen = this.canvas.getContext("2d");
    this.pen.scale(ratio, ratio);
    this.pen.font = "11px ui-monospace, monospace";
    this.pen.textBaseline = "middle";
    this.letter = this.pen.measureText("0").width;
    this.scale = this.width / (this.to - this.from);
    this.drawFrame();
    if (this.events) {
      for (const stretch of this.events.stretches) this.drawStretch(stretch);
      this.drawLinks();
      if (this.selected >= 0) this.drawSelection(this.selected);
    }
    this.frames.push(performance.now() - begin);
    if (this.frames.length > 100) this.frames.shift();
  }

  x(time) { return (time - this.from) * this.scale; }
  timeAt(x) { return this.from + x / this.scale; }
  top(lane, row) { return this.laneTop[lane] + HEAD + row * ROW; }

  drawFrame() {
    const { pen, colours } = this;
    pen.fillStyle = colours.back;
    pen.fillRect(0, 0, this.width, this.height);
    this.drawAxis();
    this.facts.lanes.forEach((lane, at) => {
      pen.fillStyle = colours.panel;
      pen.fillRect(0, this.laneTop[at], this.width, HEAD);
      pen.fillStyle = colours.text;
      pen.fillText(lane.label, 6, this.laneTop[at] + HEAD / 2);
    });
  }

  drawAxis() {
    const { pen, colours } = this;
    const step = niceStep((this.to - this.from) / Math.max(this.width / 110, 2));
    pen.strokeStyle = colours.line;
    pen.fillStyle = colours.faint;
    pen.beginPath();
    const first = Math.ceil((this.from - this.zero) / step) * step;
    for (let time = first; time + this.zero <= this.to; time += step) {
      const x = Math.round(this.x(time + this.zero)) + 0.5;
      pen.moveTo(x, 0);
      pen.lineTo(x, this.height);
      pen.fillText(time === 0 ? "0" : timeText(time), x + 3, AXIS / 2);
    }
    pen.stroke();
  }

  // One row. Events narrower than a pixel that fall on a painted pixel are passed over: it would look the same.
  drawStretch(stretch) {
    const { events, pen } = this;
    const y = this.top(stretch.lane, stretch.row);
    let painted = -1;
    for (let at = events.firstNear(stretch, this.from); at < stretch.to && events.start[at] <= this.to; at++) {
      const left = this.x(events.start[at]), right = left + events.length[at] * this.scale;
      if (right < 0 || (right < painted && right - left < 1)) continue;
      const x = Math.max(left, -1), width = Math.max(Math.min(right, this.width + 1) - x, 1);
      painted = x + width;
      if (events.isAnnotation(at)) this.drawBracket(at, x, y, width); else this.drawBox(at, x, y, width);
    }
    pen.globalAlpha = 1;
  }

  drawBox(at, x, y, width) {
    const { pen, events, colours } = this;
    pen.globalAlpha = this.matches && !this.matches.has(events.nameNumber[at]) ? 0.2 : 1;
    const colour = colours.group(events.group(at));
    if (pen.fillStyle !== colour) pen.fillStyle = colour;
    pen.fillRect(x, y, width > 3 ? width - 0.5 : width, ROW - 2);
    const mark = this.markOf(at);
    if (mark !== "same" && width > 3) {
      pen.fillStyle = colours.pattern(pen, mark);
      pen.fillRect(x, y, width, ROW - 2);
    }
    if (width > 30) this.drawLabel((MARK_SIGN[mark] ?? "") + events.label(at), x, y, width, colours.onFill);
  }

  drawBracket(at, x, y, width) {
    const { pen, events, colours } = this;
    pen.globalAlpha = this.matches && !this.matches.has(events.nameNumber[at]) ? 0.3 : 1;
    pen.strokeStyle = colours.accent;
    pen.beginPath();
    pen.moveTo(x + 0.5, y + ROW - 4);
    pen.lineTo(x + 0.5, y + 1.5);
    pen.lineTo(x + width - 0.5, y + 1.5);
    pen.lineTo(x + width - 0.5, y + ROW - 4);
    pen.stroke();
    if (width > 30) this.drawLabel(events.name(at), x, y + 1, width, colours.accent);
  }

  drawLabel(text, x, y, width, colour) {
    const from = Math.max(x, 0);
    const letters = Math.floor((Math.min(x + width, this.width) - from - 8) / this.letter);
    if (letters < 2) return;
    this.pen.fillStyle = colour;
    const shown = text.length > letters ? `${text.slice(0, letters - 1)}…` : text;
    this.pen.fillText(shown, from + 4, y + ROW / 2 - 1);
  }

  markOf(at) {
    const mark = this.events.mark?.[at] ?? -1;
    return mark >= 0 ? this.events.facts.marks[mark] : "same";
  }

  // From a launch to the GPU operation it launched.
  drawLinks() {
    const { pen } = this;
    if (this.selected < 0) return;
    const [events, ends] = this.linked();
    pen.strokeStyle = this.colours.accent;
    pen.lineWidth = 1.2;
    pen.beginPath();
    for (const work of ends) {
      const launch = events.find(events.launch[work]);
      if (launch < 0) continue;
      const [x1, y1] = [this.x(events.start[launch]), this.top(events.lane[launch], events.row[launch]) + ROW / 2];
      const [x2, y2] = [this.x(events.start[work]), this.top(events.lane[work], events.row[work])];
      pen.moveTo(x1, y1);
      pen.bezierCurveTo(x1, (y1 + y2) / 2, x2, (y1 + y2) / 2, x2, y2);
    }
    pen.stroke();
    pen.lineWidth = 1;
  }

  // The events to draw links between: those on screen, or what a server said about the selected one.
  linked() {
    const events = this.related ?? this.events, at = events.find(this.selectedEvent);
    if (at < 0) return [events, []];
    return [events, events.isGpuWork(at) ? [at] : this.related ? events.launchedBy(at) : this.links ?? []];
  }

  drawSelection(at) {
    const { events, pen } = this;
    const x = this.x(events.start[at]), width = Math.max(events.length[at] * this.scale, 2);
    pen.strokeStyle = this.colours.text;
    pen.lineWidth = 2;
    pen.strokeRect(x - 1, this.top(events.lane[at], events.row[at]) - 1, width + 2, ROW);
    pen.lineWidth = 1;
  }

  hit(x, y) {
    for (let lane = this.facts.lanes.length - 1; lane >= 0; lane--) {
      const row = Math.floor((y - this.laneTop[lane] - HEAD) / ROW);
      if (row >= 0 && row < this.facts.lanes[lane].rows) {
        return this.events ? this.events.at(lane, row, this.timeAt(x), 4 / this.scale) : -1;
      }
    }
    return -1;
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.onDown(event));
    canvas.addEventListener("pointermove", (event) => this.onMove(event));
    canvas.addEventListener("pointerup", (event) => this.onUp(event));
    canvas.addEventListener("dblclick", () => this.fit());
    canvas.addEventListener("keydown", (event) => this.onKey(event));
  }

  onWheel(event) {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.zoom(Math.exp(event.deltaY * 0.002), this.timeAt(event.offsetX));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.pan((event.deltaX || event.deltaY) / this.width);
    }
  }

  onDown(event) {
    this.drag = { x: event.offsetX, from: this.from, to: this.to, moved: false };
    this.canvas.setPointerCapture(event.pointerId);
  }

  onMove(event) {
    if (!this.drag) {
      const at = this.hit(event.offsetX, event.offsetY);
      this.canvas.title = at >= 0 ? `${this.events.label(at)} · ${timeText(this.events.length[at])}` : "";
      return;
    }
    const shift = (this.drag.x - event.offsetX) / this.scale;
    if (Math.abs(this.drag.x - event.offsetX) > 3) this.drag.moved = true;
    if (this.drag.moved) this.move(this.drag.from + shift, this.drag.to + shift);
  }

  onUp(event) {
    const drag = this.drag;
    this.drag = null;
    if (drag && !drag.moved) this.select(this.hit(event.offsetX, event.offsetY));
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = {
      w: () => this.zoom(0.7), s: () => this.zoom(1 / 0.7), a: () => this.pan(-0.2), d: () => this.pan(0.2),
      f: () => this.fit(), Escape: () => this.select(-1), ArrowLeft: () => this.beside(-1), ArrowRight: () => this.beside(1),
      ArrowUp: () => this.above(), ArrowDown: () => this.below(),
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  fit() {
    if (this.selected < 0) return;
    const { start, length } = this.events, at = this.selected, room = Math.max(length[at] * 0.1, 10);
    this.move(start[at] - room, start[at] + length[at] + room);
  }

  beside(step) {
    const { events } = this;
    if (this.selected < 0) return this.selectFirst();
    const next = this.selected + step;
    const same = next >= 0 && next < events.count && events.lane[next] === events.lane[this.selected] &&
      events.row[next] === events.row[this.selected];
    if (same) this.select(next, true);
  }

  // The caller: the range around a host event, the launch of GPU work.
  above() {
    const chain = this.selected >= 0 ? this.events.chain(this.selected) : [];
    if (chain.length) this.select(chain.at(-1), true);
  }

  // What this called: the first range inside it, else the first GPU operation it launched.
  below() {
    const { events, selected } = this;
    if (selected < 0) return this.selectFirst();
    const inside = events.stretches.find((each) => each.lane === events.lane[selected] && each.row === events.row[selected] + 1);
    if (inside && !events.isGpuWork(selected)) {
      for (let at = events.firstNear(inside, events.start[selected]); at < inside.to; at++) {
        if (events.parent[at] === events.event[selected]) return this.select(at, true);
        if (events.start[at] > events.start[selected] + events.length[selected]) break;
      }
    }
    const [work] = events.isGpuWork(selected) ? [] : events.launchedBy(selected);
    if (work !== undefined) this.select(work, true);
  }

  selectFirst() {
    const first = this.events?.stretches[0];
    if (first) this.select(Math.min(this.events.firstNear(first, this.from), first.to - 1), true);
  }
}

// 1, 2 or 5 times a power of ten, at least `least`.
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= least);
}
