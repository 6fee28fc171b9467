"""Words of predictions about a job: what is measured on a rank, why a rank is late, collectives.

Each line of a table says `name = what people write`, with choices between semicolons. The longest
match wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from foretrace.analyze.guess.tokens import ParseFailure, Token, key_at

_QUANTITIES = """
step time = step time; iteration time; time; steps; step
compute = compute time; compute
exposed comms = exposed comms; exposed communication; exposed time; exposed; comms exposed
comms = comms time; comms; communication; communication time
overlap = overlap; overlapped comms; hidden comms; hidden communication
copies = copy time; copies; copy; memcpy time; memcpy
idle = gpu idle; idle time; idle; gpu idle time
data = data loading; data loader; data time; data; dataloader; waiting for data
host = host time; host; host idle
wait = wait; waits; waiting; wait time; waiting time
transfer = transfer; transfers; transfer time
"""
_CAUSES = """
compute = compute; its compute; slow compute; kernels; its kernels
host = host; its host; cpu; its cpu; launches
data = data; data loading; its data; its data loader; data loader; dataloader
copies = copies; its copies; memcpy
other_comms = other comms; other communication; other collectives
"""
_COLLECTIVES = """
all-reduce = all-reduce; allreduce; all_reduce; all reduce
all-gather = all-gather; allgather; all_gather; all gather
reduce-scatter = reduce-scatter; reducescatter; reduce_scatter; reduce scatter
all-to-all = all-to-all; alltoall; all_to_all; all to all
broadcast = broadcast
reduce = reduce
gather = gather
scatter = scatter
send = send; sends
receive = receive; recv; receives
"""
Read = Callable[[Sequence[Token], int], tuple[str, int]]


def _table(text: str) -> dict[tuple[str, ...], str]:
    rows = (line.partition(" = ") for line in text.strip().splitlines())
    return {
        tuple(words.split()): name for name, _, written in rows for words in written.split("; ")
    }


QUANTITIES, CAUSES, COLLECTIVES = map(_table, (_QUANTITIES, _CAUSES, _COLLECTIVES))


def _reader(table: Mapping[tuple[str, ...], str]) -> Read:
    longest, wanted = max(map(len, table)), list(dict.fromkeys(table.values()))

    def read(tokens: Sequence[Token], place: int) -> tuple[str, int]:
        keys = [key_at(tokens, at) for at in range(place, place + longest)]
        sizes = (size for size in range(longest, 0, -1) if tuple(keys[:size]) in table)
        if size := next(sizes, 0):
            return table[tuple(keys[:size])], place + size
        raise ParseFailure(place, wanted)

    return read


read_quantity, read_cause, read_collective = map(_reader, (QUANTITIES, CAUSES, COLLECTIVES))
