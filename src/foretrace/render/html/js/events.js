// The events of one trace (all of them in a report, those in view when a server sends them) and what is known about them.

const GPU_WORK = ["kernel", "gpu_memcpy", "gpu_memset"];
const ANNOTATIONS = ["user_annotation", "gpu_user_annotation"];

// What does not change while a trace is looked at: names, kernels by case, shapes, launch configurations, lanes, steps.
export class TraceFacts {
  constructor(entry, configNames) {
    Object.assign(this, { names: entry.names, kinds: entry.kinds, kernels: entry.kernels, look: entry.look });
    Object.assign(this, { title: entry.title, roofs: entry.roofs, configNames, ...entry.timeline });
    this.decoded = new Map(entry.decoded.map((row) => [row.name, row]));
    this.shapes = new Map(entry.shapes.map(([number, dims, types, concrete]) => [number, { dims, types, concrete }]));
    this.origins = entry.origins;
    this.gpuKinds = new Set(GPU_WORK.map((kind) => this.kinds.indexOf(kind)));
    this.annotationKinds = new Set(ANNOTATIONS.map((kind) => this.kinds.indexOf(kind)));
  }

  // The names that contain a text: as written, or as decoded. Literal, so that no search can hang the page.
  namesWith(text) {
    const wanted = text.toLowerCase();
    const found = new Set();
    this.names.forEach((name, number) => {
      const short = this.decoded.get(number)?.short ?? "";
      if (name.toLowerCase().includes(wanted) || short.toLowerCase().includes(wanted)) found.add(number);
    });
    return found;
  }
}

// Columns in parallel, ordered by lane, row and start; a `stretch` is one row of one lane.
export class Events {
  constructor(facts, columns) {
    const { name, kind, ...others } = columns;
    Object.assign(this, others, { facts, nameNumber: name, kindNumber: kind });
    this.count = columns.event.length;
    this.stretches = this.findStretches();
  }

  // Where a compiled kernel comes from; undefined for others.
  origin(at) {
    return this.facts.origins.every[this.facts.origins.of[this.event[at]]];
  }

  findStretches() {
    const stretches = [];
    let current = null;
    for (let at = 0; at < this.count; at++) {
      if (!current || this.lane[at] !== current.lane || this.row[at] !== current.row) {
        current = { lane: this.lane[at], row: this.row[at], from: at, to: at, longest: 0 };
        stretches.push(current);
      }
      current.to = at + 1;
      current.longest = Math.max(current.longest, this.length[at]);
    }
    return stretches;
  }

  // The first event of a stretch that may reach into the time after `time`.
  firstNear(stretch, time) {
    let low = stretch.from, high = stretch.to;
    const bound = time - stretch.longest;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.start[middle] < bound) low = middle + 1; else high = middle;
    }
    return low;
  }

  // The event of a row at a time, or the nearest one within `slack`; -1 when there is none.
  at(lane, row, time, slack) {
    const stretch = this.stretches.find((each) => each.lane === lane && each.row === row);
    let best = -1, bestGap = slack;
    if (!stretch) return best;
    for (let at = this.firstNear(stretch, time - slack); at < stretch.to && this.start[at] <= time + slack; at++) {
      const gap = Math.max(this.start[at] - time, time - this.start[at] - this.length[at], 0);
      if (gap <= bestGap) [best, bestGap] = [at, gap];
    }
    return best;
  }

  // Where an event of the trace is in these columns; -1 when it is not drawn.
  find(event) {
    this.places ??= new Map(Array.from(this.event, (id, at) => [id, at]));
    return this.places.get(event) ?? -1;
  }

  name(at) { return this.facts.names[this.nameNumber[at]]; }
  kind(at) { return this.facts.kinds[this.kindNumber[at]]; }
  isGpuWork(at) { return this.facts.gpuKinds.has(this.kindNumber[at]); }
  isAnnotation(at) { return this.facts.annotationKinds.has(this.kindNumber[at]); }
  kernel(at) { return this.case[at] >= 0 ? this.facts.kernels[this.case[at]] : null; }

  // What decides the colour: a kernel's role, or the kind of a host event.
  group(at) {
    if (this.isGpuWork(at)) return this.kernel(at)?.role ?? "copy";
    return this.kind(at);
  }

  // What the name of GPU work says; an op may bear the name of its kernel, and is still no kernel.
  decoded(at) {
    return this.isGpuWork(at) ? this.facts.decoded.get(this.nameNumber[at]) : undefined;
  }

  label(at) {
    return this.decoded(at)?.short || this.name(at);
  }

  // The events around this one, outermost first; for GPU work those around its launch, and the launch itself.
  chain(at) {
    const found = [];
    let up = this.isGpuWork(at) ? this.find(this.launch[at]) : this.find(this.parent[at]);
    while (up >= 0) {
      found.unshift(up);
      up = this.find(this.parent[up]);
    }
    return found;
  }

  // GPU work launched by an event or by anything it called.
  launchedBy(at) {
    const found = [];
    for (let work = 0; work < this.count; work++) {
      if (this.launch[work] < 0) continue;
      let up = this.find(this.launch[work]);
      while (up >= 0 && up !== at) up = this.find(this.parent[up]);
      if (up === at) found.push(work);
    }
    return found;
  }
}
