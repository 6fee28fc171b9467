// The page of `foretrace try`: what the terminal says, with a bar for each fix.

import { Colours, followTheme } from "../base/colours";
import { byId, pageData, replace } from "../base/dom";
import type { TryPage } from "../data/documents";
import { triesNode } from "../views/tries/tries";

replace(byId("views"), triesNode(pageData<TryPage>()));
followTheme(new Colours(), () => {});
document.documentElement.dataset.ready = "yes";
