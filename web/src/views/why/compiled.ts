// What torch.compile made of a program: a kernel opens to its lines of source, with the generated code beside them.

import "./compiled.css";
import { make, nameOf } from "../../base/dom";
import { numberText } from "../../base/units";
import type { WhyKernel, WhyPage } from "../../data/documents";
import { headNode, sectionNode } from "../page/written";

export function whyNode({ head, sections, kernels, left_out, not_fused }: WhyPage): HTMLElement {
  const more = left_out ? make("p", { class: "faint" }, `${numberText(left_out)} more kernels are in the table alone.`) : null;
  const first = kernels.find(({ language }) => language) ?? kernels[0];
  return make(
    "section",
    { class: "compiled" },
    headNode(head),
    make(
      "div",
      { class: "tables" },
      not_fused.map((each) => sectionNode(each)),
    ),
    make("h3", {}, "Kernels: source and generated code"),
    kernels.map((kernel) => kernelNode(kernel, kernel === first)),
    more,
    make(
      "div",
      { class: "tables" },
      sections.map((each) => sectionNode(each)),
    ),
  );
}

function kernelNode({ title, about, lines, code }: WhyKernel, isOpen: boolean): HTMLElement {
  const source = lines.map(([place, text]) =>
    make("li", {}, make("div", { class: "faint" }, nameOf(place)), make("code", {}, nameOf(text))),
  );
  const shown = code ? make("pre", { class: "scroll", tabindex: 0, "aria-label": `Code of ${title}` }, code) : null;
  return make(
    "details",
    isOpen ? { open: "" } : {},
    make("summary", {}, nameOf(title)),
    make(
      "div",
      { class: "sides" },
      make("div", {}, lines.length ? make("ol", { class: "lines" }, source) : null, sectionNode({ ...about, title: "" })),
      shown,
    ),
  );
}
