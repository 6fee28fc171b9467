// The hand-off to Perfetto: its page is opened by a click and the trace is passed from window to window. Nothing is uploaded.

import { button, make, nameOf, replace } from "../../base/dom";
import type { Shown } from "../../core/context";
import type { ReportSource } from "../../core/reportsource";
import type { Events, TraceFacts } from "../../data/events";

// Joined here, so that this page holds no address that anything could load by itself.
const PERFETTO = ["https:", "", "ui.perfetto.dev"].join("/");
const EVERY_MS = 100,
  LONGEST_MS = 60000;

// Perfetto answers PING with PONG once it is ready to take a trace. `taking` may still be on its way: the window has to be
// opened in the click itself.
export async function handOver(
  taking: ArrayBuffer | Promise<ArrayBuffer>,
  title: string,
  fileName: string,
  address = PERFETTO,
): Promise<void> {
  const other = window.open(address);
  if (!other) throw new Error("the browser did not open a window");
  const buffer = await taking;
  return new Promise<void>((done, failed) => {
    const began = performance.now();
    const timer = setInterval(() => {
      if (performance.now() - began > LONGEST_MS) finish(() => failed(new Error("Perfetto did not answer")));
      else other.postMessage("PING", address);
    }, EVERY_MS);
    const onMessage = (event: MessageEvent) => {
      if (event.source !== other || event.origin !== address || event.data !== "PONG") return;
      other.postMessage({ perfetto: { buffer, title, fileName } }, address, [buffer]);
      finish(done);
    };
    const finish = (act: () => void) => {
      clearInterval(timer);
      window.removeEventListener("message", onMessage);
      act();
    };
    window.addEventListener("message", onMessage);
  });
}

export function perfettoButton(title: string, content: () => ArrayBuffer | Promise<ArrayBuffer>): HTMLElement[] {
  const said = make("span", { class: "faint", role: "status" });
  const send = () =>
    handOver(content(), title, title)
      .then(() => "sent to Perfetto")
      .catch((problem: Error) => problem.message)
      .then((words) => replace(said, words));
  return [button("open in Perfetto", send), said];
}

export function perfettoRows(traces: readonly Shown[]): HTMLElement[] {
  return traces.map(({ facts, source }) => {
    const content = () => asChromeTrace(facts, (source as ReportSource).events);
    return make("p", { class: "controls" }, nameOf(facts.title), perfettoButton(facts.title, content));
  });
}

// The events of a page as the JSON that Perfetto reads: our names and links, no more than the page itself holds.
function asChromeTrace(facts: TraceFacts, events: Events): ArrayBuffer {
  const list: object[] = facts.lanes.map((lane, tid) => ({ ph: "M", name: "thread_name", pid: 1, tid, args: { name: lane.label } }));
  for (let at = 0; at < events.count; at++) {
    const place = { pid: 1, tid: events.lane[at], ts: events.start[at] / 1000 };
    const about = { name: events.name(at), cat: events.kind(at), args: { decoded: events.label(at) } };
    list.push({ ph: "X", ...place, dur: events.length[at] / 1000, ...about });
    const launch = events.launch[at] >= 0 ? events.find(events.launch[at]) : -1;
    if (launch < 0) continue;
    list.push({ ph: "s", id: at, name: "launch", cat: "launch", pid: 1, tid: events.lane[launch], ts: events.start[launch] / 1000 });
    list.push({ ph: "f", bp: "e", id: at, name: "launch", cat: "launch", ...place });
  }
  return new TextEncoder().encode(JSON.stringify({ traceEvents: list })).buffer;
}
