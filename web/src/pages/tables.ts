// A page of tables alone: of a history, of `foretrace try`, of `foretrace why`.

import { byId, replace } from "../base/dom";
import type { TablesPage } from "../data/documents";
import { headNode, tablesNode } from "../views/page/tables";

export function showTables({ head, tables }: TablesPage): undefined {
  replace(byId("views"), headNode(head), tablesNode(tables));
}
