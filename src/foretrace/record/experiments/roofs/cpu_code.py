"""Loops in C for a CPU, compiled by the C compiler of this machine: Python would measure itself."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from foretrace.base.errors import MissingError

COMPILERS = ("cc", "gcc", "clang")
CHAINS = 12  # independent sums: more than a core has in flight, and no more than it has registers
SOURCE = """
#include <stddef.h>
#include <stdint.h>
#if defined(__AVX512F__)
#define WIDTH 64
#elif defined(__AVX__)
#define WIDTH 32
#else
#define WIDTH 16
#endif
#define AGAIN __asm__ volatile("" ::: "memory")
typedef uint64_t words __attribute__((vector_size(WIDTH)));
typedef float floats __attribute__((vector_size(WIDTH)));
typedef double doubles __attribute__((vector_size(WIDTH)));

size_t width(void) { return WIDTH; }

uint64_t read_set(const words* from, size_t bytes, size_t rounds) {
    words a = {0}, b = {0}, c = {0}, d = {0}, e = {0}, f = {0}, g = {0}, h = {0};
    size_t count = bytes / WIDTH;
    for (size_t round = 0; round < rounds; ++round) {
        for (size_t i = 0; i + 7 < count; i += 8) {
            a ^= from[i]; b ^= from[i + 1]; c ^= from[i + 2]; d ^= from[i + 3];
            e ^= from[i + 4]; f ^= from[i + 5]; g ^= from[i + 6]; h ^= from[i + 7];
        }
        AGAIN;
    }
    a ^= b ^ c ^ d ^ e ^ f ^ g ^ h;
    return a[0] ^ a[1];
}

void write_set(words* to, size_t bytes, size_t rounds) {
    size_t count = bytes / WIDTH;
    for (size_t round = 0; round < rounds; ++round) {
        words value = (words){0} + round;
        for (size_t i = 0; i < count; ++i) to[i] = value;
        AGAIN;
    }
}

void copy_set(words* restrict to, const words* restrict from, size_t bytes, size_t rounds) {
    size_t count = bytes / WIDTH;
    for (size_t round = 0; round < rounds; ++round) {
        for (size_t i = 0; i < count; ++i) to[i] = from[i];
        AGAIN;
    }
}

uint64_t chase(const uint64_t* chain, uint64_t at, size_t steps) {
    for (size_t step = 0; step < steps; ++step) at = chain[at];
    return at;
}

/* Arm adds to the sum in place: the other order would need a copy of y for each. */
#if defined(__aarch64__)
#define FRESH(x) __asm__ volatile("" : "+w"(x)) /* else the matmul leaves the loop */
#define ONE(i) s##i += x * y;
#else
#define FRESH(x)
#define ONE(i) s##i = s##i * x + y;
#endif
#define FMA(name, kind, scalar)                                                       \\
    scalar name(size_t rounds, scalar seed) {                                         \\
        kind x = (kind){0} + seed, y = x * seed, s0 = x, s1 = s0 + x, s2 = s1 + x,    \\
             s3 = s2 + x, s4 = s3 + x, s5 = s4 + x, s6 = s5 + x, s7 = s6 + x,         \\
             s8 = s7 + x, s9 = s8 + x, s10 = s9 + x, s11 = s10 + x;                   \\
        for (size_t round = 0; round < rounds; ++round) {                             \\
            FRESH(x);                                                                 \\
            ONE(0) ONE(1) ONE(2) ONE(3) ONE(4) ONE(5)                                 \\
            ONE(6) ONE(7) ONE(8) ONE(9) ONE(10) ONE(11)                               \\
        }                                                                             \\
        s0 += s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8 + s9 + s10 + s11;                 \\
        return s0[0] + s0[1];                                                         \\
    }
FMA(fma_float, floats, float)
FMA(fma_double, doubles, double)
"""
# without the third the compiler calls memset and memcpy, which write around the cache
_FLAGS = (
    "-O3",
    "-ffp-contract=fast",
    "-fno-tree-loop-distribute-patterns",
    "-funroll-loops",
    "-shared",
    "-fPIC",
    "-w",
)


@cache
def library() -> ctypes.CDLL:
    """The compiled loops."""
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise MissingError("no C compiler (cc, gcc or clang): caches and latencies need one")
    with tempfile.TemporaryDirectory(prefix="foretrace-") as folder:
        source, built = Path(folder, "loops.c"), Path(folder, "loops.so")
        source.write_text(SOURCE, encoding="utf-8")
        said = ""
        for own in (("-march=native",), ()):  # not every compiler knows `native`
            command = [compiler, *_FLAGS, *own, str(source), "-o", str(built)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return _declared(ctypes.CDLL(str(built)))
            said = done.stderr
    raise MissingError(f"{compiler} cannot compile the loops: {said.strip()[:200]}")


def _declared(loops: ctypes.CDLL) -> ctypes.CDLL:
    size, place = ctypes.c_size_t, ctypes.c_void_p
    loops.read_set.argtypes = [place, size, size]
    loops.read_set.restype = ctypes.c_uint64
    loops.write_set.argtypes = [place, size, size]
    loops.copy_set.argtypes = [place, place, size, size]
    loops.write_set.restype = loops.copy_set.restype = None
    loops.width.restype = size
    loops.chase.argtypes = [place, ctypes.c_uint64, size]
    loops.chase.restype = ctypes.c_uint64
    for name, kind in (("float", ctypes.c_float), ("double", ctypes.c_double)):
        function = getattr(loops, f"fma_{name}")
        function.argtypes, function.restype = [size, kind], kind
    return loops
