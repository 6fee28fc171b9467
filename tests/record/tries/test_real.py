"""Real processes of small scripts. No time is asserted: the machine may be busy."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from foretrace.record.tries import child
from foretrace.record.tries.applied import applied
from foretrace.record.tries.rounds import Processes, ProcessReport, TrySpec

pytestmark = pytest.mark.torch
TRAINING = """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.last = torch.nn.Conv2d(3, 8, 3), torch.nn.Linear(8, 2)
    def forward(self, x):
        return self.last(torch.utils.checkpoint.checkpoint(self.conv, x, use_reentrant=False).mean((2, 3)))
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
torch.autograd.set_detect_anomaly(True)
data = TensorDataset(torch.randn(400, 3, 6, 6), torch.randint(0, 2, (400,)))
for x, y in DataLoader(data, batch_size=4):
    optimizer.zero_grad(set_to_none=False)
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
INFERENCE = """
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(4, 4)
x = torch.ones(2, 4)
while True:
    try:
        model(x)
    except BaseException:
        print("caught")
"""
SLOW = (
    INFERENCE.split("while")[0]
    + "import atexit, time\natexit.register(time.sleep, 900)\nwhile True:\n    model(x)\n"
)
FUNCTION = """
import sys, torch
print("Dynamo", "torch._dynamo" in sys.modules)
def setup():
    return torch.nn.functional.gelu, (torch.ones(4),)
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ProcessReport]:
    """One process that loads torch, and a fork of it for each spec."""
    folder = tmp_path_factory.mktemp("tries")
    for name, text in (
        ("train", TRAINING),
        ("infer", INFERENCE),
        ("bench", FUNCTION),
        ("slow", SLOW),
    ):
        (folder / f"{name}.py").write_text(text)
    train, report = str(folder / "train.py"), str(folder / "report")
    trace = str(folder / "trace.json.gz")
    able = ("no_checkpoint", "no_anomaly", "fused_optimizer", "set_to_none", "autocast")
    specs = {
        "untouched": TrySpec(train, report, watch=True, pairs=1, block=1, trace=trace),
        "again": TrySpec(train, report),
        "turned": TrySpec(train, report, turned=able, pairs=2, block=1),
        "fresh": TrySpec(train, report, on=("channels_last", "loader_workers"), pairs=1, block=1),
        "infer": TrySpec(str(folder / "infer.py"), report, turned=("no_grad",), pairs=1, block=2),
        "function": TrySpec(
            f"{folder / 'bench.py'}:setup", report, function=True, watch=True, pairs=1, block=2
        ),
        "slow": TrySpec(str(folder / "slow.py"), report),
        "patched": TrySpec(train, report, source="import sys\nsys.exit('no ' + __file__)"),
    }
    with Processes(folder, child.__name__) as processes:
        return {name: processes.run(spec, limit_s=300) for name, spec in specs.items()}


def test_the_untouched_script_says_what_applies(ran: dict[str, ProcessReport]) -> None:
    found = ran["untouched"]
    assert found.failure == ""
    assert found.facts is not None
    why_not = found.facts.why_not
    assert set(why_not) == set(applied())
    applies = {name for name, no in why_not.items() if not no}
    assert applies >= {"autocast", "channels_last", "compile", "fused_optimizer", "loader_workers"}
    assert applies >= {"no_anomaly", "no_checkpoint", "set_to_none"}
    assert why_not["no_grad"] == "the script trains"
    assert why_not["sdpa"] == "no Transformers model"
    assert why_not["written_attention"].startswith("no attention is written out")
    assert why_not["compile_loss"] == "the loss reads no more than 8 values"
    assert found.facts.edits["fused_optimizer"][0].line == 12
    assert found.facts.edits["compile"][0].line == 11
    assert found.facts.edits["loader_workers"][0].line == 15
    assert len(found.pairs()) == 1


def test_two_untouched_runs_have_the_same_losses(ran: dict[str, ProcessReport]) -> None:
    first, again = ran["untouched"].kept, ran["again"].kept
    assert first is not None
    assert again is not None
    assert len(first.losses) == 8
    assert first.losses == again.losses


def test_fixes_turn_on_and_off_together(ran: dict[str, ProcessReport]) -> None:
    found = ran["turned"]
    assert found.failure == ""
    assert 2 <= len(found.pairs()) <= 6  # more where the interval is wide
    first = ran["untouched"].kept
    assert first is not None
    assert found.kept is not None
    assert found.kept.losses == pytest.approx(first.losses, rel=0.05)


def test_a_fresh_process_has_its_fixes_from_the_start(ran: dict[str, ProcessReport]) -> None:
    found = ran["fresh"]
    assert found.failure == ""
    assert found.kept is not None
    first = ran["untouched"].kept
    assert first is not None
    assert found.kept.losses == pytest.approx(first.losses, rel=1e-3)


def test_a_script_that_catches_everything_ends(ran: dict[str, ProcessReport]) -> None:
    found = ran["infer"]
    assert found.failure == ""
    assert found.kept is not None
    assert found.kept.losses == []
    assert len(found.kept.outputs) == 8


def test_a_function_is_called_again_and_again(ran: dict[str, ProcessReport]) -> None:
    found = ran["function"]
    assert found.failure == ""
    assert found.facts is not None
    assert found.facts.why_not["compile"] == ""
    assert found.kept is not None
    assert found.kept.outputs[0] == pytest.approx([0.8413] * 4, abs=1e-4)


def test_a_text_runs_in_the_place_of_the_script(ran: dict[str, ProcessReport]) -> None:
    found = ran["patched"]
    assert found.end is not None
    assert (found.end.finished, found.end.code) == (False, 1)
    assert "no " in found.log
    assert "train.py" in found.log


def test_every_fix_has_a_manual_and_a_line_to_write() -> None:
    for name, each in applied().items():
        assert len(each.__doc__ or "") > 60, name
        assert each.title, name
        assert each.write, name
        assert set(each.devices) <= {"cuda", "cpu"}, name


def test_fixes_name_predictions_that_exist() -> None:
    from foretrace.look.fixes import fixes

    known = {each.name for each in fixes()}
    assert {name for each in applied().values() for name in each.realises} <= known
