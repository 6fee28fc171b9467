// The parts of the page of lessons: the list, a question, the answer with what decides it, the end.

import { type Attributes, button, type Child, listOf, make, makeIn, nameOf, replace, shapeOf } from "../base/dom";
import { numberText, timeText } from "../base/units";
import type { AskedStep, LessonPage, PageDrawing, PageLane, PageStep } from "../data/documents";
import { type Kept, type Mark, type Sitting, standing } from "./sitting";

const SIGN: Record<string, string> = { hit: "✓", miss: "✗", unknown: "?", skipped: "–", "not asked": "–" };

export function prose(text: string): Child[] {
  return text.split("`").map((part, at) => (at % 2 ? make("code", {}, nameOf(part)) : part));
}

function key(name: string): HTMLElement {
  return make("kbd", { "aria-hidden": "true" }, name);
}

export function keyed(name: string, text: string, onClick: () => void, attributes: Attributes = {}): HTMLButtonElement {
  return button([text, " ", key(name)], onClick, attributes);
}

export function listNode(lessons: LessonPage[], kept: Record<string, Kept>, open: (lesson: LessonPage) => void): HTMLElement {
  const row = (lesson: LessonPage) => {
    const about = [`${lesson.steps.length} questions`, standing(kept[lesson.kept_as])].filter(Boolean).join(" · "),
      words = [make("b", {}, `${lesson.number}`), make("span", {}, nameOf(lesson.title)), make("span", { class: "faint" }, about)];
    const go = button(words, () => open(lesson), { "data-lesson": lesson.number });
    return make("li", {}, go);
  };
  const intro =
    "Read a few lines of code, predict what they do, and see at once why: each answer is measured on a recorded trace. " +
    "A lesson takes five to ten minutes.";
  const list = make("ol", { class: "list" }, lessons.map(row));
  return make("section", { class: "lesson", "aria-label": "Lessons" }, make("h2", {}, "Lessons"), make("p", {}, intro), list);
}

export function trackNode(sitting: Sitting, shown: number): HTMLElement {
  const item = (_: PageStep, at: number) => {
    const verdict = sitting.marks[at]?.verdict ?? "open";
    return make(
      "li",
      { class: verdict.replace(" ", "-"), "aria-label": `question ${at + 1}: ${verdict}`, "aria-current": at === shown ? "step" : null },
      SIGN[verdict] ?? `${at + 1}`,
    );
  };
  return make("ol", { class: "track", "aria-label": "Questions" }, sitting.lesson.steps.map(item));
}

// The code, the question and a place to answer; `answer` takes what was chosen or typed.
type Answer = (text: string) => void;

export function questionNode(step: PageStep, answer: Answer): Child[] {
  const { asked } = step;
  if (asked.skipped) {
    return [
      make("p", { class: "faint" }, `Question ${asked.number} of ${asked.of}`),
      make("h3", { id: "question", tabindex: "-1" }, "Not asked on this machine: ", nameOf(asked.skipped)),
    ];
  }
  const source = make("p", { class: "faint" }, `Question ${asked.number} of ${asked.of} · `, nameOf(`${asked.recording}, ${asked.device}`));
  const question = make("h3", { id: "question", tabindex: "-1" }, prose(asked.text));
  const lines = asked.code.split("\n").map((line) => make("span", { class: "line" }, line, "\n")); // each wraps with an indent of its own
  return [
    source,
    make("pre", {}, make("code", {}, lines)),
    question,
    step.kind === "choice" ? choicesNode(asked, answer) : inputNode(step, answer),
  ];
}

function choicesNode(asked: AskedStep, answer: Answer): HTMLElement {
  const choice = (text: string, at: number) =>
    button([key(`${at + 1}`), make("span", {}, prose(text))], () => answer(`${at + 1}`), {
      "data-choice": `${at + 1}`,
      "aria-keyshortcuts": `${at + 1}`,
    });
  return make("div", { class: "choices", role: "group", "aria-labelledby": "question" }, asked.choices.map(choice));
}

// No form: a notebook's frame does not let one be submitted.
function inputNode(step: PageStep, answer: Answer): HTMLElement {
  const number = step.kind === "number";
  const input = make("input", {
    "aria-labelledby": "question",
    "aria-describedby": "hint",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    inputmode: number ? "decimal" : null,
    class: number ? "number" : "free",
    placeholder: number ? "a number" : "a prediction",
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    answer(input.value);
  });
  const submit = keyed("Enter", "Answer", () => answer(input.value), { class: "submit" });
  return make("div", { class: "controls" }, input, submit);
}

export function saidNodes(mark: Mark): HTMLElement[] {
  const word = mark.verdict === "miss" ? "Miss" : mark.verdict === "hit" ? "Hit" : "Unknown";
  return [
    make("p", { class: `verdict ${mark.verdict}` }, make("strong", {}, `${SIGN[mark.verdict]} ${word}`)),
    ...mark.said.map((text) => make("p", {}, make("bdi", {}, prose(text)))),
  ];
}

export function evidenceNode(step: PageStep): HTMLElement | null {
  const { row, drawing } = step;
  if (!row || !drawing) return null;
  const gpu = [
    ["Self CUDA", timeText(row.self_gpu_ns)],
    ["CUDA total", timeText(row.gpu_ns)],
  ];
  const cells = [
    ["Self CPU", timeText(row.self_cpu_ns)],
    ["CPU total", timeText(row.cpu_ns)],
    ...(step.has_gpu ? gpu : []),
    ["# of Calls", numberText(row.calls)],
  ];
  const caption = make("caption", {}, "In the profiler's table, all recorded calls: ", make("code", {}, nameOf(row.name))),
    titles = listOf("tr", {}, cells, ([title]) => make("th", { scope: "col" }, title)),
    values = listOf("tr", {}, cells, ([, text]) => make("td", {}, text));
  const table = make("table", { class: "row" }, caption, make("thead", {}, titles), make("tbody", {}, values));
  return make("div", {}, lanesNode(drawing), table);
}

function scoreText(sitting: Sitting): string {
  const more = ["skipped", "not asked"].filter((word) => sitting.count(word)).map((word) => `, ${sitting.count(word)} ${word}`);
  return `${sitting.hits} of ${sitting.asked} right${more.join("")}`;
}

type OpenLesson = (number: string | undefined) => { lesson: LessonPage; go: () => void } | null;

export function endNode(sitting: Sitting, openLesson: OpenLesson): Child[] {
  const { lesson, marks, answers } = sitting;
  const played = (step: PageStep, at: number) => {
    const given = answers[at],
      shown = given !== null && step.kind === "choice" ? step.asked.choices[Number(given) - 1] : given,
      said = make("span", { class: "faint" }, nameOf(shown ?? (step.asked.skipped || "skipped")));
    return make(
      "li",
      {},
      make("span", { class: `verdict ${marks[at].verdict}` }, SIGN[marks[at].verdict]),
      " ",
      prose(step.asked.text),
      " ",
      said,
    );
  };
  return [
    make("h3", { id: "question", tabindex: "-1" }, scoreText(sitting)),
    make("ol", { class: "played" }, lesson.steps.map(played)),
    make("h4", {}, "Read next"),
    listOf("ul", { class: "read" }, lesson.read, (line) => make("li", {}, readNode(line, openLesson))),
  ];
}

// `foretrace lesson 2: …` opens that lesson where the page has it; other lines name a command.
function readNode(line: string, openLesson: OpenLesson): Child[] {
  const [command, ...rest] = line.split(": "),
    open = openLesson(command.match(/^foretrace lesson (\d+)$/)?.[1]);
  return [
    open ? button(`Lesson ${open.lesson.number}`, open.go, { class: "link" }) : make("code", {}, nameOf(command)),
    rest.length ? [": ", prose(rest.join(": "))] : "",
  ];
}

// One call from left to right: a lane for each kind of event, what decides in a strong colour. Drawn for the width that there is.

const LABEL = 52,
  LANE = 24,
  BOX = 18,
  AXIS = 16,
  THINNEST = 2,
  LETTER = 6.7,
  LINKED = 12,
  OUTLINED = 5;
const KIND: Record<string, string> = { ranges: "range", ops: "op", inside: "op", calls: "call", GPU: "gpu" };

type Box = { label: string; number: number; decides: boolean; x: number; size: number };

function lanesNode(drawing: PageDrawing): HTMLElement {
  const svg = shapeOf("lanes-shape");
  const spoken = `One call of ${drawing.region}, ${drawing.length}. ${drawing.decides ? `What decides: ${drawing.decides}. ` : ""}${drawing.others ? `Other GPU work: ${drawing.others}.` : ""}`;
  svg.setAttribute("aria-label", spoken);
  const node = make("figure", { class: "drawing" }, svg, legend(drawing));
  new ResizeObserver(() => draw(svg, drawing, node.clientWidth)).observe(node);
  return node;
}

function legend(drawing: PageDrawing): HTMLElement {
  const entry = (kind: string, text: string) =>
    text ? make("li", {}, make("span", { class: `key ${kind}`, "aria-hidden": "true" }), nameOf(text)) : null;
  return make("figcaption", {}, make("ul", { class: "keys" }, entry("decides", drawing.decides), entry("gpu", drawing.others)));
}

function draw(svg: SVGElement, drawing: PageDrawing, width: number): void {
  const room = width - LABEL - 1,
    scale = room / Math.max(drawing.length_ns, 1),
    height = drawing.lanes.length * LANE + AXIS;
  if (room <= 0) return;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", String(height));
  const boxes = drawing.lanes.map((lane) => placed(lane, scale, room));
  replace(
    svg,
    ...links(svg, drawing.lanes, boxes),
    ...drawing.lanes.flatMap((lane, at) => laneShapes(svg, lane, boxes[at], at * LANE, width)),
    text(svg, LABEL, height - 3, "0", "axis"),
    text(svg, width - 1, height - 3, drawing.length, "axis end"),
  );
}

// Where slices are drawn: one that is too short to be seen takes two pixels, and moves those behind it.
function placed(lane: PageLane, scale: number, room: number): Box[] {
  let free = 0;
  return lane.slices.map(([label, start, end, number, decides]) => {
    const from = Math.min(Math.max(start * scale, lane.slices.length > LINKED ? 0 : free), room - THINNEST);
    const size = Math.max(Math.min(end * scale, room) - from, THINNEST);
    free = from + size;
    return { label, number, decides, x: LABEL + from, size };
  });
}

function laneShapes(svg: SVGElement, lane: PageLane, boxes: Box[], top: number, width: number): SVGElement[] {
  const kind = KIND[lane.name] ?? "op";
  const last = [...boxes].sort((one, other) => Number(one.decides) - Number(other.decides)); // what decides is drawn last, above its neighbours
  return [
    text(svg, 0, top + BOX - 4, lane.name, "axis"),
    makeIn(svg, "line", { class: "grid", x1: LABEL, x2: width, y1: top + BOX + 1, y2: top + BOX + 1 }),
    ...last.flatMap((box) => {
      const words = box.number ? String(box.number) : box.label,
        fits = Math.floor((box.size - 4) / LETTER);
      const shown = words.length <= fits ? words : !box.number && fits >= 4 ? `${words.slice(0, fits - 1)}…` : "";
      const place = { x: box.x, y: top, width: box.size, height: BOX },
        about = makeIn(svg, "title", {}, box.number ? `${box.number} ${box.label}` : box.label);
      const marks = `${box.decides ? " decides" : ""}${box.size < OUTLINED ? " thin" : ""}`,
        shape = makeIn(svg, "rect", { class: `slice ${kind}${marks}`, ...place }, about);
      return shown ? [shape, text(svg, box.x + 3, top + BOX - 5, shown, `inside${box.decides ? " decides" : ""}`)] : [shape];
    }),
  ];
}

// A thin line from each launch to what it launched, where these are few.
function links(svg: SVGElement, lanes: PageLane[], boxes: Box[][]): SVGElement[] {
  const calls = lanes.findIndex((lane) => lane.name === "calls"),
    gpu = lanes.findIndex((lane) => lane.name === "GPU");
  if (calls < 0 || gpu < 0 || boxes[gpu].length > LINKED) return [];
  return boxes[calls].flatMap((call) => {
    const own = boxes[gpu].filter((box) => box.number === call.number);
    return own.map(({ x, decides }) => {
      const ends = { x1: call.x + 1, y1: calls * LANE + BOX, x2: x + 1, y2: gpu * LANE };
      return makeIn(svg, "line", { class: decides ? "link decides" : "link", ...ends });
    });
  });
}

function text(svg: SVGElement, x: number, y: number, words: string, kind: string): SVGElement {
  return makeIn(svg, "text", { class: kind, x, y }, words);
}
