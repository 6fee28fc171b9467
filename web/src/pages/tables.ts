// Pages of tables alone: those of a history, of `foretrace try` and of `foretrace why`.

import { byId, replace } from "../base/dom";
import type { HistoryPage, TryPage, WhyPage } from "../data/documents";
import { headNode, tablesNode } from "../views/page/written";
import { triesNode } from "../views/tries/tries";
import { whyNode } from "../views/why/compiled";

export function showHistory({ head, sections }: HistoryPage): undefined {
  replace(byId("views"), headNode(head));
  replace(byId("traces"), tablesNode(sections));
}

export function showTries(data: TryPage): undefined {
  replace(byId("views"), triesNode(data));
}

export function showWhy(data: WhyPage): undefined {
  replace(byId("views"), whyNode(data));
}
