// The page of a job: what the terminal says first, ranks by steps, chosen ranks on one timeline, and every table.

import type { Colours } from "../base/colours";
import { byId, make, replace } from "../base/dom";
import { unpack } from "../data/columns";
import type { JobPage } from "../data/documents";
import { HeatMap } from "../views/job/heatmap";
import { laneView } from "../views/job/lanes";
import { headNode, tablesNode } from "../views/page/tables";

export async function showJob(data: JobPage, colours: Colours): Promise<() => void> {
  const heat = data.heat ? new HeatMap(data.heat, await unpack(data.heat.values), colours) : null;
  const lanes = data.lanes,
    events = lanes?.timeline.events;
  const ranks = lanes && events ? laneView(lanes, await unpack(events), colours) : null;
  replace(
    byId("views"),
    headNode(data.head),
    heat && make("section", { "aria-label": "Ranks by steps" }, make("h3", {}, "Ranks by steps"), heat.node),
    ranks?.node,
  );
  replace(byId("traces"), tablesNode(data.tables));
  Object.assign(window, { heat, foretrace: ranks?.context }); // for the curious, and for the tests
  const redraw = () => {
    heat?.redraw();
    ranks?.context.store.touch();
  };
  redraw(); // views are in the page, and have a size
  return redraw;
}
