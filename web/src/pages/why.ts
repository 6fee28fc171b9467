// The page of `foretrace why`: stages, kernels with their code beside the source, pairs that were not fused with their cost.

import { Colours, followTheme } from "../base/colours";
import { byId, pageData, replace } from "../base/dom";
import type { WhyPage } from "../data/documents";
import { whyNode } from "../views/why/compiled";

replace(byId("views"), whyNode(pageData<WhyPage>()));
followTheme(new Colours(), () => {});
document.documentElement.dataset.ready = "yes";
