// Elements made from plain data. Text goes in as text nodes: nothing that a trace contains is ever read as markup.

export type Child = Node | string | null | undefined | readonly Child[];
export type Attributes = Record<string, string | number | null | undefined>;

export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  return fill(document.createElement(tag), attributes, children);
}

// An element with a part for each of some values.
export function listOf<Tag extends keyof HTMLElementTagNameMap, Value>(
  tag: Tag,
  attributes: Attributes,
  values: readonly Value[],
  part: (value: Value, at: number) => Child,
): HTMLElementTagNameMap[Tag] {
  return make(tag, attributes, values.map(part));
}

// Shapes for an <svg> that is already in the page: it lends its own namespace.
export function makeIn(svg: SVGElement, tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  return fill(document.createElementNS(svg.namespaceURI, tag) as SVGElement, attributes, children);
}

// A name out of a trace. <bdi> keeps marks for right-to-left text inside it.
export function nameOf(text: string, attributes: Attributes = {}, ...parts: Child[]): HTMLElement {
  return make("bdi", { class: "name", ...attributes }, text, ...parts);
}

export function sentence(text: string): HTMLElement {
  const parts = text.split("`").map((part, at) => (at % 2 ? make("code", {}, part) : part));
  return nameOf("", {}, parts);
}

// Code in a sentence goes to the next line at its joints: after a dot, a bracket or an underscore.
export function jointed(text: string): HTMLElement {
  const parts = text.split(/(?<=[._(])/).map((part) => [part, make("wbr")]);
  return nameOf("", {}, parts);
}

// A name that is cut in the middle where it has no room; see `.middle` in the style.
export function middleOf(text: string): HTMLElement {
  const at = text.length - Math.min(Math.floor(text.length * 0.4), 10);
  return nameOf("", { class: "name middle" }, make("span", {}, text.slice(0, at)), make("span", {}, text.slice(at)));
}

export function button(text: Child, onClick: () => unknown, attributes: Attributes = {}): HTMLButtonElement {
  const made = make("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", () => onClick());
  return made;
}

export function linkItem(text: Child, onClick: () => unknown, ...after: Child[]): HTMLElement {
  return make("li", {}, button(text, onClick, { class: "link" }), ...after);
}

export function replace<Kind extends Element>(node: Kind, ...children: Child[]): Kind {
  node.replaceChildren(...present(children));
  return node;
}

export function byId<Kind extends HTMLElement = HTMLElement>(id: string): Kind {
  return document.getElementById(id) as Kind;
}

// The shape in a <template> of `page.html`.
export function shapeOf(id: string): SVGSVGElement {
  return byId<HTMLTemplateElement>(id).content.firstElementChild?.cloneNode(true) as SVGSVGElement;
}

export function pageData<Document>(): Document {
  return JSON.parse(byId("data").textContent ?? "") as Document;
}

function fill<Kind extends Element>(node: Kind, attributes: Attributes, children: Child[]): Kind {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  node.append(...present(children));
  return node;
}

function present(children: readonly Child[]): (Node | string)[] {
  return children.flatMap((child) => {
    if (child === null || child === undefined) return [];
    return typeof child === "string" || child instanceof Node ? [child] : present(child);
  });
}
