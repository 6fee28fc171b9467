"""Predictions with a slip: the text, what the caret stands under, and the word that helps."""

from __future__ import annotations

# A quantity, a unit, a value, a selector, a place or a sign that is not quite right. `END` is the
# end of the text; an empty place has no caret.
TABLE = """
kernls == 5                          | kernls   | `kernels`
kernel == 5                          | kernel   | `kernels`
Kernels == 5                         | Kernels  | `kernels`
memcopies == 1                       | memcopies | `memcpys`
memcpy == 1                          | memcpy   | `memcpys`
memset == 1                          | memset   | `memsets`
launchs < 50                         | launchs  | `launches`
launch < 50                          | launch   | `launches`
wait == 0                            | wait     | `waits`
syncs == 0                           | syncs    | `waits`
sync == 0                            | sync     | `waits`
step == 3                            | step     | `step.time`
step_time < 8 ms                     | step_time | `step.time`
steptime < 8 ms                      | steptime | `step.time`
step.times < 8 ms                    | step.times | `step.time`
step.duration < 8 ms                 | step.duration | `step.time`
gpu.bussy > 90%                      | gpu.bussy | `gpu.busy`
gpu_busy > 90%                       | gpu_busy | `gpu.busy`
busy > 90%                           | busy     | `gpu.busy`
idle < 10%                           | idle     | `gpu.idle`
gpu.ilde < 10%                       | gpu.ilde | `gpu.idle`
idle.lauch < 5%                      | idle.lauch | `idle.launch`
idle.waiting < 5%                    | idle.waiting | `idle.
gpu_time < 1 ms                      | gpu_time | `gpu.time`
gputime < 1 ms                       | gputime  | `gpu.time`
mfuu > 40%                           | mfuu     | `mfu`
MFU > 40%                            | MFU      | `mfu`
utilization > 40%                    | utilization | `
memory < 10 GB                       | memory   | `peak
peek < 10 GB                         | peek     | `peak`
peak.resreved < 10 GB                | peak.resreved | `peak.reserved`
graphbreaks == 0                     | graphbreaks | `graph_breaks`
graph_break == 0                     | graph_break | `graph_breaks`
recompile == 0                       | recompile | `recompiles`
recompilations == 0                  | recompilations | `recompiles`
compile_time < 30 s                  | compile_time | `compile.time`
compiletime < 30 s                   | compiletime | `compile.time`
bouund == host                       | bouund   | `bound`
boundby == host                      | boundby  | `bound`
tme(gemm) < 5 us                     | tme      | `time(
times(gemm) < 5 us                   | times    | `time(
cuont(gemm) == 3                     | cuont    | `count(
counts(gemm) == 3                    | counts   | `count(
shares(gemm) > 40%                   | shares   | `share(
byte(gemm) > 1 MB                    | byte     | `bytes(
flop(gemm) > 1 GFLOP                 | flop     | `flops(
fuse(gelu, mul)                      | fuse     | `fused(
fusd(gelu, mul)                      | fusd     | `fused(
dtyp(gemm) == bf16                   | dtyp     | `dtype(
type(gemm) == bf16                   | type     | `dtype(
libary(gemm) == cublas               | libary   | `library(
epilog(gemm, gelu)                   | epilog   | `epilogue(
tensor_core(gemm)                    | tensor_core | `tensor_cores(
tensorcores(gemm)                    | tensorcores | `tensor_cores(
overlaps(comms, gemm) > 50%          | overlaps | `overlap(
ordered(gate, up, down)              | ordered  | `order(
maxx(time(gemm)) < 100 us            | maxx     | `max(
average(time(gemm)) < 100 us         | average  | `mean(
avg(time(gemm)) < 100 us             | avg      | `mean(
avrage(time(gemm)) < 9 us            | avrage   | `
total.kernls == 15                   | total.kernls | `kernels`
a.kernls == 5                        | a.kernls | `kernels`
bound == hots                        | hots     | host
bound == cpu                         | cpu      | host
bound == gpu                         | gpu      | compute
dtype(gemm) == bf61                  | bf61     | bf16
dtype(gemm) == fp61                  | fp61     | fp16
dtype(gemm) in (bf16, pf32)          | pf32     | fp32
layout(gemm) == nm                   | nm       | nn
gap.cause == lauch                   | lauch    | launch
limited(gemm) == memroy              | memroy   | memory
time(gem) < 5 us                     | gem)     | gemm
time(gemms) < 5 us                   | gemms    | gemm
count(geluu) == 1                    | geluu    | gelu
count(matmull) == 3                  | matmull  | matmul,
count(pointwize) == 2                | pointwize | pointwise
count(reducton) == 0                 | reducton | reduction
share(attenion) > 10%                | attenion | attention
time(optimzer) < 1 ms                | optimzer | optimizer
bytes(copy HtoDD) < 1 MB             | HtoDD    | htod
count(gemm bf61) == 3                | bf61     | bf16
max(kernels) < 5                     | kernels  | `max(time(gemm))`
max(gemm) < 5 us                     | gemm     | `max(time(gemm))`
time(gemm) < 5                       | 5        | `5 us`
time(gemm) < 100                     | 100      | `100 us`
time(gemm) < 5 msec                  | msec     | ms
time(gemm) < 5 usec                  | usec     | us
time(gemm) < 5 sec                   | sec      | s
peak < 10 gb                         | gb       | GB
peak < 10 Gb                         | Gb       | GB
bytes(memcpy) < 1 mb                 | mb       | MB
mfu > 40 percent                     | percent  | %
kernels == 5 us                      | 5 us     | without a unit
step.time < 8 MB                     | 8 MB     | time
kernels + step.time == 5             | step.time | time
time(gemm) * time(gemm) < 1 us       | *        | plain number
kernels = 5                          | =        | `==`
kernels => 5                         | =>       | `>=`
kernels =< 5                         | =<       | `<=`
kernels === 5                        | = 5      | `==`
kernels <> 5                         | > 5      | `!=`
kernels ! 5                          | !        | `!=`
kernels is 5                         | kernels  | `kernels`
kernels equals five                  | kernels  | `kernels`
time(gemm) is 5 us                   | is       | `==`
time(gemm) under 5 us                | under    | `<`
step.time above 8 ms                 | above    | `>`
kernels == 5 && waits == 0           | &&       | `and`
kernels == 5 & waits == 0            | &        | `and`
!fused(gelu, mul)                    | !        | `not`
kernels == 5, waits == 0             | ,        | `and`
kernels == 5 waits == 0              | waits    | `and`
3 < kernels < 7                      | < 7      | `and`
kernels                              | END      | `kernels == 5`
time(gemm)                           | END      | `time(gemm) == 5 us`
kernels ==                           | END      | number
== 5                                 | ==       | a quantity
kernels == five                      | five     | no quantity `five`
(kernels == 5                        | END      | `)`
kernels == 5)                        | )        | `)`
time(gemm < 5 us                     | END      | `)`
time gemm < 5 us                     | gemm     | `time(gemm)`
time < 5 us                          | < 5 us   | `time(gemm)`
time() < 5 us                        | )        | `
same == 5                            | == 5     | `same(gemm)`
order(gemm)                          | (gemm)   | 2
bound > 5                            | >        | `==`
dtype(gemm) < bf16                   | <        | `==`
fused(gelu, mul) == 1                | ==       | leave out
in mlp_fdw: kernels == 5             |          | mlp_fwd
in mlp: kernels == 5                 |          | mlp_fwd
in step 9: kernels == 5              |          | 2, 3, 4
in mlp_fwd kernels == 5              | in       | `:`
in mlp_fwd; kernels == 5             | in       | `:`
mlp_fwd: kernels == 5                | :        | `in mlp_fwd:`
in mlp_fwd: kernls == 5              | kernls   | `kernels`
kernels ~ 5 (± ten)                  | ten      | number
kernels ~ 5 (10%)                    | (        | ± 10%
count("gemm) == 3                    | "gemm    | quote
"""
ROWS = [[part.strip() for part in line.split("|", 2)] for line in TABLE.strip().splitlines()]
SLIPS = [tuple(row) for row in ROWS]
