// Colours come from the style sheet, so that light, dark and print each have their own.

export class Colours {
  constructor() { this.read(); }

  read() {
    const style = getComputedStyle(document.documentElement);
    this.value = (name) => style.getPropertyValue(name).trim();
    this.text = this.value("--text");
    this.faint = this.value("--faint");
    this.line = this.value("--line");
    this.back = this.value("--back");
    this.panel = this.value("--panel");
    this.accent = this.value("--accent");
    this.onFill = this.value("--on-fill");
    this.groups = new Map();
    this.patterns = new Map();
    this.stops = ["--heat-low", "--heat-middle", "--heat-high"].map((name) => this.value(name).match(/[0-9a-f]{2}/g)?.map((part) => parseInt(part, 16)));
  }

  // From the least (0) to the most (1) of a heat map.
  heat(share) {
    return `rgb(${this.mixed(share).join(" ")})`;
  }

  // What can be read on it.
  heatInk(share) {
    const [red, green, blue] = this.mixed(share);
    return red * 0.3 + green * 0.59 + blue * 0.11 > 128 ? "#10151c" : "#ffffff";
  }

  mixed(share) {
    const half = share < 0.5 ? 0 : 1, part = share * 2 - half;
    return this.stops[half].map((value, at) => Math.round(value + (this.stops[half + 1][at] - value) * part));
  }

  group(name) {
    if (!this.groups.has(name)) {
      this.groups.set(name, this.value(`--${name.replaceAll("_", "-")}`) || this.value("--other"));
    }
    return this.groups.get(name);
  }

  // Stripes that tell changed, new and gone kernels apart without colour.
  pattern(context, mark) {
    if (!this.patterns.has(mark)) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = 6;
      const pen = tile.getContext("2d");
      pen.strokeStyle = this.onFill;
      pen.globalAlpha = 0.3;
      pen.beginPath();
      if (mark === "changed" || mark === "gone") { pen.moveTo(0, 6); pen.lineTo(6, 0); }
      if (mark === "gone") { pen.moveTo(0, 0); pen.lineTo(6, 6); }
      if (mark === "new") { pen.moveTo(3, 0); pen.lineTo(3, 6); }
      pen.stroke();
      this.patterns.set(mark, context.createPattern(tile, "repeat"));
    }
    return this.patterns.get(mark);
  }
}
