// The page of `foretrace roofs`: what the terminal says, and the curves by working set.

import { Colours } from "../base/colours";
import { byId, make, pageData, replace } from "../base/dom";
import { followTheme } from "../base/theme";
import type { RoofsPage } from "../data/documents";
import { curveNodes } from "../views/roofcurve";
import { headNode, sectionNode } from "../views/written";

const data = pageData<RoofsPage>();
replace(byId("views"), headNode(data.head), make("div", { class: "curves" }, curveNodes(data)));
replace(byId("traces"), make("div", { class: "tables" }, data.sections.map(sectionNode)));
followTheme(new Colours(), () => {});
document.documentElement.dataset.ready = "yes";
