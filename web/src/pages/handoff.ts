// The page of `foretrace export --to perfetto`: one button that opens Perfetto and passes the trace on.

import { button, byId, make, nameOf, replace } from "../base/dom";
import { handOver } from "../views/page/perfetto";

export function handOff(data: { title: string; file: string; perfetto?: string }): undefined {
  const said = make("p", { role: "status" });
  const open = button("open in Perfetto", async () => {
    const taking = fetch("trace").then((answer) => answer.arrayBuffer());
    try {
      await handOver(taking, data.title, data.file, data.perfetto);
      replace(said, "Sent to Perfetto. This page can be closed.");
    } catch (problem) {
      replace(said, (problem as Error).message);
    }
  });
  byId("theme").hidden = true;
  replace(
    byId("views"),
    make("h2", {}, nameOf(data.title)),
    make("p", {}, "The trace goes from this window to Perfetto's. It is not uploaded."),
    open,
    said,
  );
}
