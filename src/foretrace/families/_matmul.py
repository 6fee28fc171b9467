"""What matrix-multiply names have in common: operand letters, MMA shapes, tiles, chip generations.

cuBLAS is column-major and PyTorch row-major, so PyTorch asks for the transposed product and swaps
the operands. For `out = X @ Y` the first letter therefore tells about Y (the weight) and the second
about X (the activation); the first tile number runs along the columns of the PyTorch result (output
features), the second along its rows (tokens).
"""

from __future__ import annotations

from foretrace.families._reading import Reading

# Numbers are bounded: a name of ten thousand digits is not a tile.
PAIR = r"\d{1,5}x\d{1,5}"
TRIPLE = r"\d{1,5}x\d{1,5}x\d{1,5}"

MMA = {
    "884": [8, 8, 4],
    "1688": [16, 8, 8],
    "16816": [16, 8, 16],
    "8816": [8, 8, 16],
    "16832": [16, 8, 32],
    "8832": [8, 8, 32],
    "16864": [16, 8, 64],
    "161616": [16, 16, 16],
    "32816": [32, 8, 16],
    "83216": [8, 32, 16],
    "1684": [16, 8, 4],
    "88128": [8, 8, 128],
    "168256": [16, 8, 256],
}
ARCH = {"volta": "sm70", "turing": "sm75", "ampere": "sm80"}
GENERATION = {
    "sm50": "Maxwell",
    "sm52": "Maxwell",
    "sm60": "Pascal",
    "sm61": "Pascal",
    "sm70": "Volta",
    "sm75": "Turing",
    "sm80": "Ampere",
    "sm86": "Ampere",
    "sm87": "Ampere",
    "sm89": "Ada",
    "sm90": "Hopper",
    "sm100": "Blackwell",
    "sm103": "Blackwell",
    "sm110": "Blackwell",
    "sm120": "Blackwell",
    "sm121": "Blackwell",
    "gfx906": "MI50",
    "gfx908": "MI100",
    "gfx90a": "MI200",
    "gfx940": "MI300",
    "gfx942": "MI300",
    "gfx950": "MI350",
}
_SIDE = {
    "n": "row-major as PyTorch stores it",
    "t": "a transposed view",
    "c": "a conjugate-transposed view",
    "h": "a conjugate-transposed view",
}
_HABIT = {
    "tn": "x @ W.t(), what F.linear runs forward",
    "nn": "x @ W as stored, or the input gradient of a linear layer",
    "nt": "the weight gradient of a linear layer, by habit",
    "tt": "both operands are transposed views",
}


def shape(text: str) -> list[int]:
    """`128x256` -> [128, 256]."""
    return [int(number) for number in text.split("x")]


def arch_meaning(arch: str) -> str:
    generation = GENERATION.get(arch.rstrip("abf") if arch.startswith("sm") else arch, "")
    return (
        f"written for {arch}{f' ({generation})' if generation else ''}; it may run on a newer card"
    )


def layout_meaning(letters: str) -> str:
    """The letters in PyTorch's terms: the first is the weight, the second the activation."""
    low = letters[:2].lower()
    first, second = _SIDE.get(low[:1], "?"), _SIDE.get(low[1:2], "?")
    habit = f": {_HABIT[low]}" if low in _HABIT else ""
    return (
        f"first letter, the weight (second operand of X @ Y): {first}; second letter, X: "
        f"{second}{habit}"
    )


def put_layout(reading: Reading, text: str, letters: str, certainty: str) -> None:
    reading.put(text, "layout", letters, layout_meaning(letters), certainty)


def put_tile(
    reading: Reading, text: str, tile: list[int], certainty: str, field: str = "tile"
) -> None:
    """A block tile of two or three numbers: output features, tokens, depth."""
    words = f"one block computes {tile[0]} output features x {tile[1]} rows (tokens)"
    if len(tile) > 2:
        words += f", {tile[2]} deep along K per step"
    reading.put(text, field, tile, words, certainty)


def put_tile_k(reading: Reading, text: str, certainty: str) -> None:
    """`64x3`: how deep a slice of K each step takes, and how many such slices are in flight. Adds
    the whole tile.
    """
    depth, stages = shape(text)
    reading.put(text, "tile_k", depth, f"each step takes a slice of {depth} along K", certainty)
    reading.put(text, "stages", stages, f"{stages} slices in flight (pipeline stages)", certainty)
    if "tile_mn" in reading.fields:
        put_tile(reading, text, [*reading.fields["tile_mn"], depth], certainty)


def put_tensor_core(reading: Reading, text: str, used: bool, certainty: str) -> None:
    reading.put(
        text,
        "tensor_core",
        used,
        "runs on tensor cores" if used else "runs on plain CUDA cores",
        certainty,
    )


def put_relu(reading: Reading, text: str, certainty: str) -> None:
    words = "this kernel can apply bias and ReLU at the end; it does not prove that a ReLU ran"
    reading.put(text, "epilogue", ["relu-capable"], words, certainty)
