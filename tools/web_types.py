"""Write `web/src/data/documents.ts`, the types of what pages read: `python tools/web_types.py`."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap

from msgspec import NODEFAULT, Struct, inspect

from foretrace.learn.lessons.documents import LessonPage
from foretrace.pages.job_report import JobPage
from foretrace.pages.memory_html import SnapshotPage
from foretrace.pages.page_tables import TablesPage
from foretrace.pages.report import Report
from foretrace.pages.serve.library import PackedTile, SearchResult

FILE = Path(__file__).parents[1] / "web" / "src" / "data" / "documents.ts"
WIDTH = 140
HEAD = """\
// What Python writes and pages read: change the Structs, then run `python tools/web_types.py`.
"""
ROOTS = (Report, TablesPage, JobPage, LessonPage, SnapshotPage, SearchResult, PackedTile)
NAMES = {inspect.IntType: "number", inspect.FloatType: "number", inspect.StrType: "string"}
NAMES |= {inspect.BoolType: "boolean", inspect.NoneType: "null"}
NAMES |= {inspect.AnyType: "unknown", inspect.CustomType: "unknown"}


class Types:
    """The interfaces of Structs and of all that they hold."""

    def __init__(self) -> None:
        self.written: dict[str, str] = {}
        self.of: dict[str, type] = {}

    def add(self, struct: type) -> str:
        """The name of the interface of a Struct or a dataclass."""
        name = struct.__name__
        if self.of.setdefault(name, struct) is not struct:
            raise ValueError(f"two Structs are named {name}")
        if name not in self.written:
            self.written[name] = ""  # it may hold itself
            found = inspect.type_info(struct)
            assert isinstance(found, inspect.StructType | inspect.DataclassType)
            fields = "; ".join(self.field(found, field) for field in found.fields)
            text = f"export interface {name} {{ {fields} }}"
            self.written[name] = "\n".join(wrap(text, WIDTH, subsequent_indent="  "))
        return name

    def field(
        self, struct: inspect.StructType | inspect.DataclassType, field: inspect.Field
    ) -> str:
        """`name: type`; with a question mark where JSON may omit it."""
        # without a default and not required: UNSET
        bare = field.default is NODEFAULT and field.default_factory is NODEFAULT
        optional = bare or (issubclass(struct.cls, Struct) and omits(struct.cls))
        mark = "?" if optional and not field.required else ""
        return f"{field.encode_name}{mark}: {self.text(field.type)}"

    def text(self, kind: inspect.Type) -> str:
        """A type in TypeScript."""
        match kind:
            case inspect.Metadata():
                return self.text(kind.type)
            case inspect.StructType() | inspect.DataclassType():
                return self.add(kind.cls)
            case inspect.UnionType():
                return " | ".join(dict.fromkeys(self.text(each) for each in kind.types))
            case inspect.TupleType():
                return f"[{', '.join(self.text(each) for each in kind.item_types)}]"
            case inspect.CollectionType():
                item = self.text(kind.item_type)
                return f"({item})[]" if "|" in item else f"{item}[]"
            case inspect.DictType():
                return f"Record<{self.text(kind.key_type)}, {self.text(kind.value_type)}>"
        return NAMES[type(kind)]


def omits(struct: type[Struct]) -> bool:
    """Whether JSON leaves out what has its default."""
    return struct.__struct_config__.omit_defaults


def document() -> str:
    """The whole file."""
    types = Types()
    for root in ROOTS:
        types.add(root)
    return "\n".join([HEAD, *(types.written[name] for name in sorted(types.written)), ""])


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
