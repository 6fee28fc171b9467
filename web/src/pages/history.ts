// The page of `foretrace history`: what the terminal says.

import { Colours, followTheme } from "../base/colours";
import { byId, pageData, replace } from "../base/dom";
import type { HistoryPage } from "../data/documents";
import { headNode, tablesNode } from "../views/page/written";

const data = pageData<HistoryPage>();
replace(byId("views"), headNode(data.head));
replace(byId("traces"), tablesNode(data.sections));
followTheme(new Colours(), () => {});
document.documentElement.dataset.ready = "yes";
