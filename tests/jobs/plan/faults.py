"""Random jobs with planted faults, and what an answer about such a job gets wrong.

A fault is as large as an engineer would notice: a delay or a slow link lengthens the step by 10% to
30% when it is alone, which the simulation decides. Late ranks are never half of a group: then
nothing in the traces says which half is late. The truth is in the plan; the answer is judged by
what its first screen says.
"""

from __future__ import annotations

import re
from random import Random
from statistics import fmean
from zlib import decompressobj

from msgspec import Struct
from msgspec.structs import replace

from foretrace.jobs.documents import JobDocument
from foretrace.jobs.verdict import fixes, stragglers
from jobs.plan.answer import Answer, walls
from jobs.plan.layout import groups
from jobs.plan.plan import Clock, Delay, Plan
from jobs.plan.simulate import simulate

KINDS = ("gpu", "host", "link", "cut", "drift", "size")
CAUSES = {"gpu": ("compute", "gpu"), "host": ("host", "host")}
LEAST, MOST = 0.10, 0.30  # of a step
NEAR, NOISE = 0.35, 0.03  # of a saving, and of a step: how far a promise may be off
CLOSE = 0.8  # of the largest delay: either of the two may be called the worst
SHAPES = ((4, 1, 1), (8, 1, 1), (2, 2, 1), (4, 2, 1), (4, 4, 1), (2, 4, 1), (4, 1, 2), (4, 2, 2))


class Fault(Struct, frozen=True):
    """A fault: the rank, or for a link the name of its group; `cost` is the part of a step that a
    delay adds when it is alone.
    """

    kind: str
    rank: int = -1
    group: str = ""
    cost: float = 0.0


def random_job(seed: int) -> tuple[Plan, list[Fault]]:
    """A plan and its faults: none in one of four plans, else one to three."""
    chance = Random(seed)
    plan = _healthy(chance, seed)
    wanted = chance.sample(KINDS, chance.randint(1, 3)) if chance.random() < 0.75 else []
    found: list[Fault] = []
    for kind in sorted(wanted, key=KINDS.index):
        plan, fault = _with_fault(plan, kind, found, chance)
        found += [fault] if fault else []
    return plan, found


def _healthy(chance: Random, seed: int) -> Plan:
    data, tensor, pipeline = chance.choice(SHAPES)
    layer = chance.choice((200_000, 400_000, 1_000_000))
    per_host = max(chance.choice((2, 4)), tensor)
    hosts = -(-data * tensor * pipeline // per_host)
    return Plan(
        data=data, tensor=tensor, pipeline=pipeline, ranks_per_host=per_host,
        steps=chance.randint(4, 6), layers=chance.randint(2, 3), kernels=chance.randint(1, 3),
        microbatches=4 if pipeline > 1 else 1, overlap=chance.random() < 0.6,
        sharded=pipeline == 1 and chance.random() < 0.3, sync=chance.random() < 0.7,
        forward_ns=layer, backward_ns=2 * layer, kernel_noise_ns=chance.randrange(layer * 3 // 100),
        host_noise_ns=chance.choice((0, 0, layer // 10)),
        rate_noise=chance.choice((0.0, 0.05, 0.1)), end_noise_ns=chance.choice((0, 500, 2_000)),
        gradient_bytes=layer * 40, activation_bytes=layer * 10, seed=seed,
        clocks={host: Clock(chance.randrange(-5_000_000, 5_000_000)) for host in range(1, hosts)},
    )  # fmt: skip


def _with_fault(
    plan: Plan, kind: str, found: list[Fault], chance: Random
) -> tuple[Plan, Fault | None]:
    """The plan with one more fault; None where the plan has no room for it."""
    culprits = [each.rank for each in found if each.kind in CAUSES]
    rank = chance.randrange(plan.world)
    if kind in CAUSES:
        return _late(plan, kind, culprits, chance)
    if kind == "link":
        return _slow_link(plan, chance)
    if kind == "drift":
        return _drifting(plan, chance)
    if kind == "cut":
        rank = chance.choice([rank, *culprits])
        gaps = replace(plan.gaps, cut=(rank,), kept=chance.uniform(0.5, 0.8))
        plan = replace(plan, host_first=chance.random() < 0.5)
    else:
        gaps = replace(plan.gaps, sized={rank: 2})
    return replace(plan, gaps=gaps), Fault(kind, rank)


def _late(plan: Plan, kind: str, culprits: list[int], chance: Random) -> tuple[Plan, Fault | None]:
    free = [rank for rank in range(plan.world) if _minority(plan, [*culprits, rank])]
    if not free:
        return plan, None
    rank, share = chance.choice(free), chance.uniform(LEAST, MOST)
    cause = "compute" if kind == "gpu" else "host"
    ns = round(share * _step(replace(plan, delays=(), slow_groups={})))
    for _ in range(6):  # a host that runs ahead hides a part
        delay = Delay(cause, ns, (rank,))  # type: ignore[arg-type]
        cost = _cost(replace(plan, slow_groups={}, delays=(delay,)))
        if LEAST <= cost <= MOST:
            return replace(plan, delays=(*plan.delays, delay)), Fault(kind, rank, cost=cost)
        ns = round(ns * (1.5 if cost < LEAST else 0.8))
    return plan, None


def _minority(plan: Plan, ranks: list[int]) -> bool:
    """Whether the others are the most in every group; of two ranks, one."""
    met = [len(set(ranks) & set(group.ranks)) for group in groups(plan)]
    most = [max((len(group.ranks) - 1) // 2, 1) for group in groups(plan)]
    return len(set(ranks)) == len(ranks) and all(n <= m for n, m in zip(met, most, strict=True))


def _slow_link(plan: Plan, chance: Random) -> tuple[Plan, Fault | None]:
    """One of several equal groups at a third of its bandwidth or less."""
    kinds = [kind for kind in ("tensor", "data") if getattr(plan, kind) > 1]
    several = [each for each in groups(plan) if each.kind in kinds and len(each.ranks) < plan.world]
    for group in chance.sample(several, len(several)):
        for rate in (plan.bus_gbps / 3, plan.bus_gbps / 5, plan.bus_gbps / 8):
            slow = replace(plan, slow_groups={group.name: rate})
            if _cost(replace(slow, delays=())) >= LEAST:
                return slow, Fault("link", group=group.name)
    return plan, None


def _drifting(plan: Plan, chance: Random) -> tuple[Plan, Fault | None]:
    if plan.hosts < 2:
        return plan, None
    host = chance.randrange(1, plan.hosts)
    clock = Clock(plan.clocks[host].offset_ns, chance.choice((-1, 1)) * chance.uniform(20, 90))
    return replace(plan, clocks={**plan.clocks, host: clock}), Fault("drift")


def _step(plan: Plan) -> float:
    return fmean(walls(simulate(plan)))


def _cost(plan: Plan) -> float:
    """By how much of itself the faults of a plan lengthen its step."""
    return _step(plan) / _step(replace(plan, delays=(), slow_groups={})) - 1


def misses(document: JobDocument, truth: Answer, faults: list[Fault]) -> list[str]:
    """What the first screen gets wrong; empty where every culprit and cause is right."""
    plan = truth.plan
    said = {row.rank: (row.cause, row.slow) for row in stragglers(document)}
    late = {each.rank: each for each in faults if each.kind in CAUSES}
    wrong = [f"false straggler: rank {rank} {said[rank]}" for rank in said if rank not in late]
    for rank, fault in late.items():
        unseen = rank in plan.gaps.cut and not _has_a_step(truth, rank)
        if unseen and f"rank {rank} could not be judged" in document.verdict.text:
            continue
        if said.get(rank) != CAUSES[fault.kind]:
            wrong.append(f"rank {rank} {fault.kind} {fault.cost:.0%}: said {said.get(rank)}")
    return [*wrong, *_worst(document, late), *_links(document, plan, faults),
            *_files(document, faults), *_advice(document, plan, late)]  # fmt: skip


def _worst(document: JobDocument, late: dict[int, Fault]) -> list[str]:
    most = max((each.cost for each in late.values()), default=0.0)
    worst = [rank for rank, each in late.items() if each.cost >= CLOSE * most]
    if document.verdict.bound == "straggler" and late:
        named = [rank for rank in worst if document.verdict.text.startswith(f"rank {rank} ")]
        return [] if named else [f"worst of {worst}: {document.verdict.text}"]
    return []


def _links(document: JobDocument, plan: Plan, faults: list[Fault]) -> list[str]:
    slow = {each.group for each in faults if each.kind == "link"}
    ranks = {each.name: each.ranks for each in groups(plan)}
    hosts = {f"node{plan.host(rank):03d}" for name in slow for rank in ranks[name]}
    said = {each.what for each in document.outliers}
    wrong = [f"false link {what}" for what in said - slow - (hosts if len(hosts) == 1 else set())]
    if slow and not said:
        wrong.append(f"slow group {slow} not found")
    delayed = any(each.kind in CAUSES for each in faults)
    text = document.verdict.text
    if slow and not delayed and not any(what in text for what in said):
        wrong.append(f"slow group {slow} not in the verdict: {text}")
    if not slow and not delayed and document.verdict.bound not in ("balanced", "inconclusive"):
        wrong.append(f"false verdict: {text}")
    return wrong


def _files(document: JobDocument, faults: list[Fault]) -> list[str]:
    """Cut files and wrong sizes are said, and a healthy job is called the same."""
    wrong = []
    for fault in faults:
        codes = {each.code for each in document.same if fault.rank in each.ranks}
        if fault.kind == "cut" and "lost_data" not in codes:
            wrong.append(f"rank {fault.rank} is cut: not said")
        if fault.kind == "cut" and f"rank {fault.rank}" not in document.verdict.text:
            wrong.append(f"rank {fault.rank} is cut: {document.verdict.text}")
        if fault.kind == "size" and "other_size" not in codes:
            wrong.append(f"rank {fault.rank} has another size: not said")
    if all(each.kind == "drift" for each in faults) and document.same:
        wrong.append(f"same job: {document.same[0].text}")
    return wrong


def _has_a_step(truth: Answer, rank: int) -> bool:
    """Whether what remains of a cut file has the collectives of a step."""
    text = decompressobj(wbits=31).decompress(truth.files[rank].read_bytes())
    every = [met for met in truth.collectives if rank in met.starts_ns]
    return text.count(b"ncclDevKernel") * truth.plan.steps >= len(every)


def _advice(document: JobDocument, plan: Plan, late: dict[int, Fault]) -> list[str]:
    """Advice about a rank is about a late one, and the first saves what the simulation saves."""
    ranks = [[int(rank) for rank in re.findall(r"rank (\d+) \(", each.text)
              if "every GPU" not in each.text] for each in fixes(document)]  # fmt: skip
    wrong = [f"advice about {each}" for each in ranks if not set(each) <= set(late)]
    if wrong or document.verdict.bound not in ("straggler", "slow_host", "slow_link"):
        return wrong
    first, step = fixes(document)[0], _step(plan)
    rest = tuple(each for each in plan.delays if each.ranks[0] not in ranks[0])
    links = (
        {} if first.text.startswith(("inspect group", "inspect the network")) else plan.slow_groups
    )
    saves = step - _step(replace(plan, delays=rest, slow_groups=links))
    if first.how == "about" and abs(first.saves_ns - saves) > max(NEAR * saves, NOISE * step):
        wrong.append(f"saves {first.saves_ns / step:.1%} of a step, truly {saves / step:.1%}")
    return wrong
