// Elements made from plain data. Text goes in as text nodes: nothing that a trace contains is ever read as markup.

export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// Shapes for an <svg> that is already in the page: it lends its own namespace.
export function makeIn(svg, tag, attributes = {}, ...children) {
  return fill(document.createElementNS(svg.namespaceURI, tag), attributes, children);
}

// A name out of a trace. <bdi> keeps marks for right-to-left text inside it.
export function nameOf(text, attributes = {}) {
  return make("bdi", { class: "name", ...attributes }, text);
}

export function button(text, onClick, attributes = {}) {
  const made = make("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", onClick);
  return made;
}

export function replace(node, ...children) {
  node.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function byId(id) {
  return document.getElementById(id);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}
