// The page as a file again: what Python wrote, with another address to open at. What the script has drawn is left out, and drawn anew.

const DRAWN = "#banner, #catalog, #views, #status, #comparison, #guesses, #traces, #products, #ladder, #ledger";
const RAW = new Set(["SCRIPT", "STYLE"]); // their text is no markup
const VOID = new Set(["META", "LINK"]);

export function pageText(address: string): string {
  const page = document.documentElement.cloneNode(true) as HTMLElement;
  for (const node of page.querySelectorAll(DRAWN)) node.replaceChildren();
  for (const name of Object.keys(page.dataset)) delete page.dataset[name];
  page.removeAttribute("style");
  page.dataset.address = address;
  return `<!doctype html>\n${written(page)}\n`;
}

function written(node: Node): string {
  if (node instanceof Text) return escaped(node.data);
  if (!(node instanceof Element)) return "";
  const tag = node.tagName.toLowerCase();
  const attributes = Array.from(node.attributes, ({ name, value }) => ` ${name}="${escaped(value)}"`).join("");
  if (VOID.has(node.tagName)) return `<${tag}${attributes}>`;
  const inside = node instanceof HTMLTemplateElement ? node.content : node;
  const text = RAW.has(node.tagName) ? (node.textContent ?? "") : Array.from(inside.childNodes, written).join("");
  return `<${tag}${attributes}>${text}</${tag}>`;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
