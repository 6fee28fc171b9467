// What Python writes and pages read: change the Structs, then run `python tools/web_types.py`.

export interface Anchor { name: string; starts: number[]; ends: number[] }
export interface Answers { word: string; text: string; first: string; then: string; bases: Basis[] }
export interface AskedStep { number: number; of: number; recording: string; device: string; code: string; text: string; choices: string[];
  hint: string; skipped: string }
export interface AverageRow { name: string; calls: number; self_cpu_ns: number; cpu_ns: number; self_gpu_ns: number; gpu_ns: number }
export interface Bar { at: number; low: number; high: number; kind?: string }
export interface Basis { per: string; label: string; unit: string; parts: Part[]; rows: WhereRow[] }
export interface CacheUse { verdict: string; excess_bytes: number; cache_bytes: number; inputs: CachedInput[]; written_bytes: number;
  too_large: number }
export interface CachedInput { tensor: string; bytes: number; op: string; kernel: string; before_ns: number; between_bytes: number;
  unpriced: number }
export interface Change { text: string; same: boolean; saved_ns: number | null; saved: string }
export interface ColumnData { name: string; unit: string; first: boolean }
export interface Compared { pairs: ComparedPair[]; anchors: Anchor[]; times: TableData }
export interface ComparedPair { a: number; b: number; verdict: string; changes: Change[]; work: Packed; predicted: TableData | null; tables:
  TableData[] }
export interface DeviceDrawing { title: string; head: TableData; events: number; allocations: number; peak_event: number; peak_ns: number;
  peak_bytes: number; steps: number[]; counted: number; steps_left_out: number; groups: LiveGroups[]; whole: DrawnPart; flame: PeakFlame;
  tables: TableData[]; categories: string[]; ran: string[] }
export interface DrawnPart { points: Packed; left_out: number; held: Packed[]; boxes: Packed; lines: string[]; modules: string[]; stacks:
  StackTree }
export interface Flame { names: string[]; trees: FlameTree[]; work: Packed; has_modules: boolean; groups: string[]; steps: number; kinds:
  string[]; passes: string[] }
export interface FlameTree { time: string; by: string; boxes: Packed; left_out_ns: number }
export interface HeatData { ranks: number[]; hosts: string[]; steps: number[]; cut: number[]; measures: HeatMeasure[]; values: Packed }
export interface HeatMeasure { name: string; title: string; text: string }
export interface IdleTime { causes: [string, string][]; pieces: Packed }
export interface Insight { key: string; title: string; detail: string; about: string; place: Place; label?: string; saves?: string; todo?:
  string; code?: string; bar?: Bar | null; base?: number; gaps?: number | null }
export interface JobPage { head: TableData; heat: HeatData | null; lanes: LanePage | null; tables: TableData[]; kind: string }
export interface KernelOrigin { lines: [string, string][]; nodes: string[]; moves: [string, string, string][]; language: string; code:
  string }
export interface KnownMeasure { value: number; units: Record<string, number>; shown: string }
export interface KnownWords { hold: string[]; shown: string }
export interface Lane { label: string; gpu: boolean; rows: number; kind: string; key: string; launches: number; busy_ns: number; gpu_number:
  number | null }
export interface LanePage { names: string[]; kinds: string[]; note: string; timeline: Outline }
export interface LessonPage { number: number; kept_as: string; title: string; steps: PageStep[]; read: string[] }
export interface LiveGroups { by: string; names: string[]; folded: number }
export interface MemoryPage { device: string; points: Packed; peak_bytes: number; peak_ns: number; holders: TableData }
export interface NameParts { name: number; short: string; family: string; role: string; parts: [string, string, string, string][] }
export interface Origins { every: KernelOrigin[]; of: Record<number, number> }
export interface Outline { lanes: Lane[]; end: number; steps: StepExtent[]; step: number | null; configs: string[]; groups: string[];
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
  [number, number][]; about: [string, string][] }
export interface PageLane { name: string; slices: [string, number, number, number, boolean][] }
export interface PagePredictable { measures: Record<string, KnownMeasure>; words: Record<string, KnownWords>; marks: Record<string, [string,
  string]> }
export interface PageReply { verdict: string; said: string; misread: string }
export interface PageStep { asked: AskedStep; kind: string; right: string; replies: Record<string, PageReply>; ranges: RightRange[];
  predictable: PagePredictable | null; drawing: PageDrawing | null; row: AverageRow | null; has_gpu: boolean }
export interface Part { kind: string; name: string; share: number; text: string; percent: string }
export interface PeakFlame { names: string[]; boxes: Packed; passes: string[]; left_out_bytes: number; kinds: string[] }
export interface Place { frame: [number, number] | null; shades: [number, number, number][]; events: [number, number, number, number][] }
export interface Report { traces: TraceFacts[]; compared: Compared | null; tabs: Record<string, TableData[]>; marks: string[]; schema:
  number; only: string; kind: string }
export interface RightRange { least: number; most: number }
export interface RoofShare { roof: string; percent: number }
export interface RoofsEntry { device: string; hbm_gbps: number; l2_gbps: number | null; l2_bytes: number | null; tflops: Record<string,
  number>; measured: boolean; source: string; datasheet: string[] }
export interface SearchResult { count: number; names: [number, number][]; events: Packed }
export interface SnapshotPage { devices: DeviceDrawing[]; served: boolean; kind: string }
export interface StackTree { names: string[]; boxes: Packed }
export interface StepExtent { name: string; start: number; end: number; last: number }
export interface TableData { title: string; columns: ColumnData[]; cells: string[][]; values: ((number | null)[])[]; lines?: [string,
  string, string][]; more?: string; code?: string; to?: string[]; bars?: Bar[]; base?: number; folded?: string; heat?: boolean }
export interface TablesPage { head: TableData; tables: TableData[]; kind: string }
export interface TimeTables { step: TableData[]; recording: TableData[] }
export interface TraceFacts { title: string; headline: string; timeline: Outline; names: string[]; kinds: string[]; kernels: PageKernel[];
  decoded: NameParts[]; shapes: [string, string][][]; origins: Origins; flame: Flame; idle: IdleTime; launch_names: number[]; code_lines:
  Record<number, string>; call_groups: Record<number, string>; memory: MemoryPage[]; roofs: RoofsEntry | null; answers: Answers; insights:
  Insight[]; findings: TableData[]; times: TimeTables; ledger: TableData[]; lost: string[]; clocks_agree: boolean }
export interface WhereRow { name: string; share: number; time: string; percent: string; about: string; filter: string }
