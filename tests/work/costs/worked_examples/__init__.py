"""Worked examples of every cost module, in files of the same name, and the short form they use.

`EXAMPLES` maps a call to its cost. `SPLIT` maps a call that launched several kernels to the part of
each. A call is written as `aten::op(arguments)`, its arguments separated by spaces:

    bf16[8,4]  bf16[8,4]@1,8   a tensor, and one with strides
    f32{8,4;4;()}              a list of tensors, the last of them 0-d
    {8;4}  {}                  a list of unknown type; one whose sizes are not recorded
    =0.5  =[1,1]               a recorded number, flag or list of numbers
    ?  ?[]                     a number and a list whose values are not recorded
    -                          an argument that is None
    bf16[8,4]*3                the same argument three times

Fields that a collective records follow after ` | `, and so does `context=requests,queries,keys,
pairs,squares`.
"""

from foretrace.work.costs import Certainty, Context, Cost, OpCall

TYPES = {
    "bf16": "c10::BFloat16", "f16": "c10::Half", "f32": "float", "f64": "double",
    "f8": "c10::Float8_e4m3fn", "i64": "long int", "i32": "int",
    "i16": "short int", "i8": "signed char", "u8": "unsigned char",
}  # fmt: skip


def call(text: str) -> OpCall:
    """The call that this line describes."""
    head, *fields = text.split(" | ")
    name, _, arguments = head.removesuffix(")").partition("(")
    repeats = [word.partition("*") for word in arguments.split()]
    found = [_argument(word) for word, _, times in repeats for _ in range(int(times or 1))]
    dims, types, strides, concrete, list_types = (
        [each[place] for each in found] for place in range(5)
    )
    pairs = dict(field.split("=") for field in fields)
    sums = pairs.pop("context", "")
    context = Context(*map(int, sums.split(","))) if sums else None
    kwargs = {key: int(value) if value.isdigit() else value for key, value in pairs.items()}
    list_type = next(filter(None, list_types), "")
    return OpCall(name, dims, types, strides, concrete, kwargs, list_type, context=context)


def at_least(flops: int | None, read: int | None, written: int | None, note: str) -> Cost:
    """A lower bound; the side that is known stands for both where the other is not."""
    touched = written if read is None else read if written is None else None
    return Cost(flops, read, written, note, Certainty.AT_LEAST, touched)


def _argument(word: str) -> tuple[list[object], str, list[int], str, str]:
    """Sizes, type, strides, recorded value, and the element type of a list."""
    if word == "-":
        return [], "", [], "", ""
    if word[0] in "=?":
        kind = "ScalarList" if word.endswith("]") else "Scalar"
        return [], kind, [], word[1:] if word[0] == "=" else "", ""
    if word.endswith("}"):
        kind, _, sizes = word[:-1].partition("{")
        return (
            [_sizes(each) for each in sizes.split(";") if sizes],
            "TensorList",
            [],
            "",
            _type(kind),
        )
    shape, _, strides = word.partition("@")
    kind, _, sizes = shape[:-1].partition("[")
    return [*_sizes(sizes)], _type(kind), _sizes(strides), "", ""


def _sizes(text: str) -> list[int]:
    return [int(size) for size in text.strip("()").split(",") if size]


def _type(short: str) -> str:
    return TYPES.get(short, short)
