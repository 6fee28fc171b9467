// What belongs to an event: its callers, what it launched, what launched it, the other launches of its kernel, its neighbours.

import { type Columns, countBelow } from "../data/columns";
import type { Events } from "../data/events";
import type { Way } from "../data/source";

const MOST_RELATED = 300;

export class Related {
  private made: Order | undefined;
  private children: Map<number, number> | undefined; // the first range inside each event

  constructor(readonly events: Events) {}

  details(event: number): Columns {
    const { events } = this;
    const at = events.find(event);
    if (at < 0) return events.columnsAt([]);
    const work = events.isGpuWork(at) ? [] : this.launchedBy(at);
    const launches = work.map((each) => events.find(events.launch[each]));
    const found = new Set([at, ...events.chain(at), ...work, ...launches]);
    return events.columnsAt([...found].sort((a, b) => a - b));
  }

  // All launches of a kernel by case, in order of time, and the step of each by its launch.
  launches(kernel: number): Columns {
    const { events } = this;
    const own: number[] = [];
    for (let at = 0; at < events.count; at++) if (events.case[at] === kernel && events.isGpuWork(at)) own.push(at);
    own.sort((a, b) => events.start[a] - events.start[b]);
    const { event, start, length } = events.columnsAt(own);
    return { event, start, length, step: Float64Array.from(own, (at) => this.step(at)) };
  }

  neighbour(event: number | null, way: Way, time: number): number | null {
    const at = event === null ? -1 : this.events.find(event);
    const next = at < 0 ? this.first(time) : this.toward(at, way);
    return next < 0 ? null : this.events.event[next];
  }

  private toward(at: number, way: Way): number {
    const { events } = this;
    if (way === "up") return above(events, at);
    if (way === "down") return events.isGpuWork(at) ? -1 : this.inside(at);
    const step = way === "next" ? 1 : -1;
    if (!events.isGpuWork(at)) return beside(events, at, step);
    return this.order.work[this.order.place[at] + step] ?? -1;
  }

  private inside(at: number): number {
    const { events } = this;
    this.children ??= firstChildren(events);
    return this.children.get(events.event[at]) ?? this.launchedBy(at, 1)[0] ?? -1;
  }

  // The first GPU operation from a time on; without a GPU the first event.
  private first(time: number): number {
    const { events } = this;
    let best = -1;
    for (const wanted of [(at: number) => events.isGpuWork(at), () => true]) {
      for (let at = 0; at < events.count; at++) {
        if (events.start[at] >= time && wanted(at) && (best < 0 || events.start[at] < events.start[best])) best = at;
      }
      if (best >= 0) return best;
    }
    return best;
  }

  // GPU work that was launched by an event or by anything it called, in launch order.
  private launchedBy(at: number, most = MOST_RELATED): number[] {
    const { events, order } = this;
    const end = events.start[at] + events.length[at];
    const found: number[] = [];
    for (let place = order.from(events.start[at]); place < order.work.length && order.time[place] <= end; place++) {
      let up = events.find(events.launch[order.work[place]]);
      while (up >= 0 && up !== at) up = events.find(events.parent[up]);
      if (up === at) found.push(order.work[place]);
      if (found.length === most) break;
    }
    return found;
  }

  private get order(): Order {
    this.made ??= new Order(this.events);
    return this.made;
  }

  private step(at: number): number {
    const { events } = this;
    const launch = events.find(events.launch[at]);
    const time = events.start[launch];
    return launch < 0 ? -1 : events.facts.steps.findIndex(({ start, end }) => time >= start && time < end);
  }
}

// GPU work in the order of its launches: `time` says when; its own start where the launch is not recorded.
class Order {
  readonly work: Int32Array;
  readonly time: Float64Array;
  readonly place: Int32Array; // of each event in `work`

  constructor(events: Events) {
    const work: number[] = [];
    const launched = new Float64Array(events.count);
    for (let at = 0; at < events.count; at++) {
      if (!events.isGpuWork(at)) continue;
      const launch = events.find(events.launch[at]);
      launched[at] = events.start[launch < 0 ? at : launch];
      work.push(at);
    }
    this.work = Int32Array.from(work).sort((a, b) => launched[a] - launched[b] || events.start[a] - events.start[b] || a - b);
    this.time = Float64Array.from(this.work, (at) => launched[at]);
    this.place = new Int32Array(events.count);
    this.work.forEach((at, place) => {
      this.place[at] = place;
    });
  }

  from(time: number): number {
    return countBelow(this.time, time);
  }
}

function firstChildren(events: Events): Map<number, number> {
  const found = new Map<number, number>();
  for (let at = 0; at < events.count; at++) {
    const known = found.get(events.parent[at]);
    if (events.parent[at] >= 0 && (known === undefined || events.start[at] < events.start[known])) found.set(events.parent[at], at);
  }
  return found;
}

// A place in the columns, or -1.
export function beside(events: Events, at: number, step: number): number {
  const next = at + step;
  const within = next >= 0 && next < events.count;
  return within && events.lane[next] === events.lane[at] && events.row[next] === events.row[at] ? next : -1;
}

export function above(events: Events, at: number): number {
  return events.chain(at).at(-1) ?? -1;
}

// How long GPU work waited: from the start of its launch, as everywhere in foretrace, to its own.
export function queueDelay(events: Events, at: number): number | null {
  const launch = events.isGpuWork(at) ? events.find(events.launch[at]) : -1;
  return launch < 0 ? null : events.start[at] - events.start[launch];
}
