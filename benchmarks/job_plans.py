"""How often `foretrace job` names the culprit and the cause in jobs with planted faults.

    python benchmarks/job_plans.py --first 1 --last 60

Each seed is a random plan with none to three faults: a slow GPU, a late host, a slow link, a cut
file, a clock that drifts, a message of another size. It prints every miss and the score.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from foretrace import jobs
from foretrace.jobs.summary import summarize
from jobs.plan import write
from jobs.plan.faults import misses, random_job


def wrong_about(seed: int) -> tuple[str, list[str]]:
    """The faults of a plan, and what the answer about it gets wrong."""
    plan, faults = random_job(seed)
    with tempfile.TemporaryDirectory() as folder:
        truth = write(plan, Path(folder))
        with jobs.read(folder, cache=False) as job:
            document = summarize(job)
        wrong = misses(document, truth, faults)
    shape = f"{plan.data}x{plan.tensor}x{plan.pipeline}"
    planted = ", ".join(f"{each.kind} {each.group or each.rank}" for each in faults) or "none"
    return f"{shape}: {planted}", wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--last", type=int, default=60)
    chosen = parser.parse_args()
    right, healthy, false = 0, 0, 0
    for seed in range(chosen.first, chosen.last + 1):
        planted, wrong = wrong_about(seed)
        right += not wrong
        healthy += planted.endswith("none")
        false += planted.endswith("none") and any("false" in each for each in wrong)
        for each in wrong:
            print(f"seed {seed} ({planted}): {each}", flush=True)
    count = chosen.last - chosen.first + 1
    print(f"{right} of {count} plans right; {false} false culprits in {healthy} without a fault")


if __name__ == "__main__":
    main()
