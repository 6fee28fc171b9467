// What Python writes and pages read: change the Structs, then run `python tools/web_types.py`.

export interface Anchor { name: string; starts: number[]; ends: number[] }
export interface Answers { word: string; text: string; first: string; then: string; cards: FixCard[]; bases: Basis[] }
export interface AskedStep { number: number; of: number; recording: string; device: string; code: string; text: string; choices: string[];
  hint: string; skipped: string }
export interface AverageRow { name: string; calls: number; self_cpu_ns: number; cpu_ns: number; self_gpu_ns: number; gpu_ns: number }
export interface Basis { per: string; composition: Composition; rows: WhereRow[] }
export interface CacheUse { verdict: string; excess_bytes: number; cache_bytes: number; inputs: CachedInput[]; written_bytes: number;
  too_large: number }
export interface CachedInput { tensor: string; bytes: number; op: string; kernel: string; before_ns: number; between_bytes: number;
  unpriced: number }
export interface ChangeEntry { a: number | null; b: number | null; ratio: number | null; noise: number | null }
export interface CheckDocument { schema: number; hits: number; misses: number; unknown: number; guesses: MarkedGuess[] }
export interface ClaimCounts { hit: number; miss: number; unknown: number }
export interface CollectiveRow { collective: string; dtype: string; message_bytes: number; group_name: string | null; group_size: number |
  null; count: number; total_ns: number; median_ns: number | null; algorithm_gbps: number | null; bus_gbps: number | null; best_bus_gbps:
  number | null }
export interface CompareDocument { schema: number; a: ComparedTrace; b: ComparedTrace; kernels: ComparedKernels; ops: ComparedOps; fusions:
  FusionEntry[]; gpu_ns: ChangeEntry; cpu_ns: ChangeEntry; wall_ns: ChangeEntry; changed: string[]; unchanged: string[]; worth: Worth;
  verdict: CompareVerdict; work: WorkEntry[]; bare_wall_ns?: ChangeEntry; bare_host_ns?: ChangeEntry; others?: CompareDocument[];
  predicted?: MarkedFix; published?: string }
export interface CompareVerdict { answer: string; text: string; basis: string; saves_at_least_ns: number | null; saves_at_most_ns: number |
  null }
export interface Compared { pairs: ComparedPair[]; anchors: Anchor[] }
export interface ComparedKernel { kernel: KernelRow; config: LaunchConfig; a: number; b: number; median_ns: ChangeEntry; to?:
  LaunchedKernel; why?: string[] }
export interface ComparedKernels { same: ComparedKernel[]; changed: ComparedKernel[]; removed: ComparedKernel[]; added: ComparedKernel[] }
export interface ComparedOp { name: string; a: number; b: number; self_cpu_ns: TimePair; gpu_ns: TimePair; apart: boolean | null }
export interface ComparedOps { removed: ComparedOp[]; added: ComparedOp[]; same: ComparedOp[] }
export interface ComparedPair { a: number; b: number; document: CompareDocument; work: Packed; first: Record<string, number[]>; predicted:
  string }
export interface ComparedTrace { path: string; source: string; device: string | null; arch: string | null; rank: number | null; events:
  number; steps: number; regions: number; ledger: LedgerEntry; unit: ComparedUnit; per_unit: UnitCounts }
export interface ComparedUnit { kind: string; name: string | null; repeats: number }
export interface Composition { per: string; wall_ns: number; parts: TimePart[]; recorded_ns: number | null }
export interface CpuOpRow { name: string; depth: number; count: number; total_ns: number; self_ns: number; does: string; note: string }
export interface DeviceDrawing { title: string; head: Section; events: number; allocations: number; peak_event: number; peak_ns: number;
  peak_bytes: number; steps: number[]; counted: number; steps_left_out: number; groups: LiveGroups[]; whole: DrawnPart; flame: PeakFlame;
  by_line: MemoryLine[]; by_module: MemoryPart[]; rows_left_out: number; categories: string[]; ran: string[] }
export interface DrawnPart { points: Packed; left_out: number; held: Packed[]; boxes: Packed; lines: string[]; modules: string[]; stacks:
  StackTree }
export interface Finding { rule: string; state: string; title: string; detail: string; at_most_ns: number | null; evidence: Record<string,
  unknown>; events: number[]; fix: string; ranges: [number, number, number][]; saves_ns: number | null }
export interface FixCard { key: string; order: string; why: string; code: string; label: string; needs: string; risk: string; ns: number |
  null; low_ns: number | null; high_ns: number | null; after_ns: number | null; after_low_ns: number | null; after_high_ns: number | null;
  at_most_ns: number | null; events: number[] }
export interface FixEntry { name: string; order: string; why: string; ns: number; low_ns: number; high_ns: number; after_ns: number | null;
  first: string; risk: string; events: number[]; compiled_ns: number | null; code: string }
export interface Flame { names: string[]; trees: FlameTree[]; work: Packed; has_modules: boolean; groups: string[]; steps: number; kinds:
  string[]; passes: string[] }
export interface FlameTree { time: string; by: string; boxes: Packed; left_out_ns: number }
export interface FusionEntry { kernel: string; backend: string; replaces: string[]; bytes_saved: number | null; ns_saved: number | null;
  count: number; sign: string; sources: string[] }
export interface GroupRow { name: string; time: number; share: number; count: number; limited_by: string }
export interface HeatCell { m: number; n: number; matmuls: number; roof_percent: number; tflops: number; tile: string }
export interface HeatData { ranks: number[]; hosts: string[]; steps: number[]; cut: number[]; measures: HeatMeasure[]; values: Packed }
export interface HeatMeasure { name: string; title: string; text: string }
export interface HeatPlane { dtype: string; layout: string; epilogue: string; cells: HeatCell[] }
export interface HistoryPage { head: Section; sections: Section[]; kind: string }
export interface Holder { ops: string[]; modules: string[]; ran: string; bytes: number; count: number; event: number }
export interface IdleTime { causes: [string, string][]; pieces: Packed }
export interface IgnoredEntry { kind: string; name: string; findings: number; how: string; reason: string }
export interface JobPage { head: Section; heat: HeatData | null; lanes: LanePage | null; sections: Section[]; guesses: CheckDocument | null;
  kind: string }
export interface KernelOrigin { lines: [string, string][]; nodes: string[]; moves: [string, string, string][]; language: string; code:
  string }
export interface KernelRow { name: string; short: string; family: string; role: string; fields: Record<string, unknown>; number: number;
  first: number; count: number; in_steps: number | null; per_step: number | null; total_ns: number | null; in_steps_ns: number | null;
  median_ns: number | null; min_ns: number | null; max_ns: number | null; ops: string[]; chain: string[]; shapes: string | null; flops:
  number | null; bytes: number | null; bytes_read: number | null; bytes_written: number | null; tflops: number | null; gbps: number | null;
  precision: string; bound: string; roof_percent: number | null; limited_by: string; cost_certainty: string; cost_note: string | null;
  modules: string[]; source: string | null; sources: string[]; cache_use: CacheUse | null }
export interface KnownMeasure { value: number; units: Record<string, number>; shown: string }
export interface LadderDocument { schema: number; source: string; device: string; torch: string; claims: MarkedClaim[]; counts: ClaimCounts;
  skipped: SkippedSetup[]; article: SetupRow[]; outcomes: Record<string, number>; unmarked: UnmarkedClaim[]; commentaries: Record<string,
  number>; found: Record<string, number> }
export interface Lane { label: string; gpu: boolean; rows: number; kind: string; key: string; launches: number; busy_ns: number; gpu_number:
  number | null }
export interface LanePage { names: string[]; kinds: string[]; note: string; timeline: Outline }
export interface LaunchConfig { grid: string | null; block: string | null; registers: number | null; shared_memory: number | null }
export interface LaunchedKernel { kernel: KernelRow; config: LaunchConfig }
export interface LedgerEntry { seen: number; kept: number; repaired: number; skipped: number; notes: NoteEntry[] }
export interface LessonPage { number: number; kept_as: string; title: string; steps: PageStep[]; read: string[] }
export interface Line { label: string; text: string; below: string }
export interface LiveGroups { by: string; names: string[]; folded: number }
export interface Look { schema: number; trace: TraceEntry; ledger: LedgerEntry; totals: Totals; steps: StepRow[]; regions: RegionRow[];
  kernels: KernelRow[]; ops: OpRow[]; findings: Finding[]; verdict: LookVerdict; groups: GroupRow[]; modules: ModuleRow[]; serving:
  ServingRow[]; collectives: CollectiveRow[]; mfu: number | null; mbu: number | null; mfu_gpu: number | null; mbu_gpu: number | null;
  host_times_profiled: boolean; options: string[]; cpu: CpuOpRow[]; roofs: RoofsEntry | null; step: StepTime | null; fixes: FixEntry[];
  unrecorded: UnrecordedWait | null; memory: TraceMemory | null; trust: TrustEntry[]; ignored: IgnoredEntry[]; composition: Composition |
  null }
export interface LookVerdict { bound: string; text: string; first: string; then: string }
export interface MarkedClaim { number: string; source: string; rung: string; variant: string; setup: string; recording: string; guess:
  string; verdict: string; measured: string; expected: string; why: string; reason: string; correction: string; outcome: string; claim:
  string; sentence: string; where: string; address: string; program: string; against: string; said_by: string; published: string }
export interface MarkedFix { fixes: string[]; orders: string[]; before_ns: number; predicted_ns: number; low_ns: number; high_ns: number;
  measured_ns: number; hit: boolean }
export interface MarkedGuess { text: string; verdict: string; measured: string; expected: string; why: string }
export interface MatmulMark { m: number; n: number; text: string }
export interface MatmulsOnMap { device: string; plane: HeatPlane; marks: MatmulMark[]; head: string[]; rows: string[][] }
export interface MemoryLine { line: string; category: string; bytes: number; share: number; count: number; live_ns: number | null }
export interface MemoryPage { device: string; points: Packed; points_left_out: number; relative: boolean; peak_bytes: number; peak_ns:
  number; holders: Holder[]; holders_left_out: number; before_bytes: number | null }
export interface MemoryPart { name: string; bytes: number; share: number; count: number }
export interface ModuleRow { name: string; calls: number; kernels: number; gpu_ns: number; kind: string; path: string[]; total_ns: number;
  share: number; forward_ns: number; backward_ns: number; recomputed_ns: number; flops: number | null; mfu: number | null; folded: number;
  memory_bytes: number | null }
export interface NameParts { name: number; short: string; family: string; role: string; parts: [string, string, string, string][] }
export interface NoteEntry { code: string; severity: string; count: number; text: string }
export interface OpRow { name: string; count: number; self_cpu_ns: number; total_cpu_ns: number; kernels: number | null; metadata_only:
  boolean | null; gpu_ns: number | null }
export interface OperandRow { number: number; dims: string | null; types: string | null; strides: string | null; concrete: string | null }
export interface Origins { every: KernelOrigin[]; of: Record<number, number> }
export interface Outline { lanes: Lane[]; end: number; steps: StepExtent[]; step: number | null; configs: unknown[][]; groups: string[];
  events?: Packed | null; left_out?: number | null; marks?: Packed | null; origin_ns?: number }
export interface Packed { rows: number; columns: string[]; differences: string[]; data: string }
export interface PackedBands { runs: Packed; busy: Packed }
export interface PackedTile { bands: PackedBands; strips: PackedBands; boxes: Packed; marks?: Packed | null }
export interface PageDrawing { region: string; length_ns: number; lanes: PageLane[]; length: string; decides: string; others: string }
export interface PageKernel { name: string; short: string; family: string; role: string; fields: Record<string, unknown>; number: number;
  first: number; count: number; in_steps: number | null; per_step: number | null; total_ns: number | null; in_steps_ns: number | null;
  median_ns: number | null; min_ns: number | null; max_ns: number | null; ops: string[]; chain: string[]; shapes: string | null; flops:
  number | null; bytes: number | null; bytes_read: number | null; bytes_written: number | null; tflops: number | null; gbps: number | null;
  precision: string; bound: string; roof_percent: number | null; limited_by: string; cost_certainty: string; cost_note: string | null;
  modules: string[]; source: string | null; sources: string[]; cache_use: CacheUse | null; shape: number | null; roofs: RoofShare[]; steps:
  [number, number][] }
export interface PageLane { name: string; slices: [string, number, number, number, boolean][] }
export interface PagePredictable { measures: Record<string, KnownMeasure>; statements: Record<string, [string, number]>; texts: string[] }
export interface PageReply { verdict: string; said: string; misread: string }
export interface PageStep { asked: AskedStep; kind: string; right: string; replies: Record<string, PageReply>; ranges: RightRange[];
  predictable: PagePredictable | null; drawing: PageDrawing | null; row: AverageRow | null; has_gpu: boolean }
export interface PeakFlame { names: string[]; boxes: Packed; passes: string[]; left_out_bytes: number; kinds: string[] }
export interface Place { key: string; frame: [number, number] | null; shades: [number, number, number][]; events: [number, number, number,
  number][] }
export interface RegionRow { name: string; count: number; cpu_ns: number; kernels_per_call: number; roles_per_call: Record<string, number>;
  gpu_busy_ns: number | null; bound: string; gpu_ns_per_call: number | null }
export interface Report { traces: TraceFacts[]; compared: Compared | null; guesses: CheckDocument | null; ladder: LadderDocument | null;
  matmuls: MatmulsOnMap | null; tried: TryPage | null; why: WhyPage | null; config: string[]; marks: string[]; schema: number; only: string;
  kind: string }
export interface RightRange { least: number; most: number }
export interface RoofShare { roof: string; percent: number }
export interface RoofsEntry { device: string; hbm_gbps: number; l2_gbps: number | null; l2_bytes: number | null; tflops: Record<string,
  number>; measured: boolean; source: string; datasheet: string[] }
export interface SearchResult { count: number; names: [number, number][]; events: Packed }
export interface Section { title: string; paragraphs: string[]; labelled: [string, string][]; bullets: [string, string][]; head: string[];
  rows: string[][]; left: number[]; after: string; code: string }
export interface ServingRow { kind: string; batches: number; requests: number; tokens: number; context: number | null; time_ns: number;
  gpu_busy_ns: number; tokens_per_s: number | null; bound: string; floor_ns: number | null; floor_by: string; mfu: number | null; mbu:
  number | null; profiled: boolean; unrecorded_ns: number }
export interface SetupRow { setup: string; changed: string[]; same: string[] }
export interface SkippedSetup { setup: string; why: string }
export interface SnapshotPage { devices: DeviceDrawing[]; served: boolean; kind: string }
export interface StackTree { names: string[]; boxes: Packed }
export interface StepExtent { name: string; start: number; end: number; last: number }
export interface StepOp { name: string; count: number; self_cpu_ns: number; total_cpu_ns: number; kernels: number | null; gpu_ns: number |
  null }
export interface StepRow { name: string; index: number | null; cpu_ns: number; kernels: number; memcpys: number; memsets: number;
  gpu_busy_ns: number | null; gpu_idle_ns: number | null; bound: string; recorded_ns: number | null; ops: number | null; ops_ns: number |
  null }
export interface StepTime { recorded_ns: number; replayed_ns: number; ns: number; low_ns: number; high_ns: number }
export interface TimePair { a: number; b: number }
export interface TimePart { kind: string; name: string; ns: number }
export interface Totals { kernels: number; memcpys: number; memsets: number; launches: number; syncs: number; gpu_busy_ns: number | null;
  gpu_span_ns: number | null; cpu_ops: number }
export interface TraceEntry { path: string; source: string; device: string | null; arch: string | null; rank: number | null; events: number;
  steps: number; regions: number }
export interface TraceFacts { title: string; headline: string; story: Line[]; timeline: Outline; look: Look; names: string[]; kinds:
  string[]; kernels: PageKernel[]; decoded: NameParts[]; shapes: OperandRow[]; origins: Origins; flame: Flame; idle: IdleTime; launch_names:
  number[]; code_lines: Record<number, string>; memory: MemoryPage[]; places: Place[]; worth_ns: number; notes: string; fixes: Section |
  null; answers: Answers; fix_places: Place[]; call_groups: Record<number, string>; step_ops: StepOp[]; groups: GroupRow[] }
export interface TraceMemory { device: string; peak_bytes: number; reserved_bytes: number | null; source: string; parts: Record<string,
  number>; before_bytes: number | null }
export interface TriedBar { state: string; median_ns: number; low_ns: number; high_ns: number }
export interface TrustEntry { cause: string; count: number; text: string; effect: string; do: string; reference: string }
export interface TryPage { head: Section; untouched: TriedBar; bars: TriedBar[]; table: Section; sections: Section[]; diff: string[]; kind:
  string }
export interface UnitCounts { kernels: number; memcpys: number; memsets: number; launches: number; gpu_idle_ns: number | null }
export interface UnmarkedClaim { number: string; source: string; outcome: string; claim: string; sentence: string; where: string; address:
  string; decides: string; see: string; said_by: string }
export interface UnrecordedWait { call: string; op: string; ns: number; event: number }
export interface WhereRow { name: string; ns: number; share: number; count: number; limited_by: string; filter: string }
export interface WhyKernel { title: string; about: Section; lines: [string, string][]; language: string; code: string }
export interface WhyPage { head: Section; sections: Section[]; kernels: WhyKernel[]; left_out: number; not_fused: Section[]; kind: string }
export interface WorkEntry { group: string; fate: string; how: string; times: number; even: boolean; a: number; b: number; copies_a: number;
  copies_b: number; ns_a: number | null; ns_b: number | null; text: string }
export interface Worth { saves_ns_per_call: number | null; cost_s: number | null; break_even_calls: number | null; text: string }
