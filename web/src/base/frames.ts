// Names of Python's frames, to be read: the function first, its file by its end. Layers that are equal but for their number.

const FRAME = /^(.*)\((\d+)\): (.+)$/;
const MODULE = "nn.Module: ";
const NUMBERED = /^(.*\D)_\d+$/;
export const EVERY = "_*"; // in the place of the number of a layer

// `transformers/models/llama/modeling_llama.py(312): forward` is `forward  llama/modeling_llama.py:312`.
export function frameText(name: string): string {
  if (isModule(name)) return name.slice(MODULE.length);
  const [, path, line, called] = name.match(FRAME) ?? [];
  if (!called) return name.replace(/ at 0x[0-9a-f]+/, "");
  const parts = path.split("/");
  return `${called}  ${parts.length > 2 ? "…/" : ""}${parts.slice(-2).join("/")}:${line}`;
}

export function isModule(name: string): boolean {
  return name.startsWith(MODULE);
}

// `LlamaDecoderLayer_3` is one of `LlamaDecoderLayer_*`.
export function layerOf(name: string): string {
  const [, head] = name.match(NUMBERED) ?? [];
  return head ? head + EVERY : name;
}
