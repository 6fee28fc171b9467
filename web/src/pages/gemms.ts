// The page of `foretrace lab gemms`: what the terminal says, and the plane of M and N in colour.

import { Colours, followTheme } from "../base/colours";
import { byId, make, nameOf, pageData, replace } from "../base/dom";
import type { GemmsPage } from "../data/documents";
import { headNode, planeNode, tablesNode } from "../views/page/written";

const data = pageData<GemmsPage>();
replace(
  byId("views"),
  headNode(data.head),
  data.heat && make("section", { "aria-label": "Matmuls by M and N" }, make("h3", {}, nameOf(data.title)), planeNode(data.heat)),
);
replace(byId("traces"), tablesNode(data.sections));
followTheme(new Colours(), () => {});
document.documentElement.dataset.ready = "yes";
