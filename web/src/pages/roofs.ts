// The page of `foretrace lab roofs`: what the terminal says, and the curves by working set.

import { Colours, followTheme } from "../base/colours";
import { byId, make, pageData, replace } from "../base/dom";
import type { RoofsPage } from "../data/documents";
import { headNode, tablesNode } from "../views/page/written";
import { curveNodes } from "../views/roofline/roofcurve";

const data = pageData<RoofsPage>();
replace(byId("views"), headNode(data.head), make("div", { class: "curves" }, curveNodes(data)));
replace(byId("traces"), tablesNode(data.sections));
followTheme(new Colours(), () => {});
document.documentElement.dataset.ready = "yes";
