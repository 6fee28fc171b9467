// The parts of the page of lessons: the list, a question, the answer with what decides it, the end.

import { type Attributes, button, type Child, make, nameOf } from "../base/dom";
import { numberText, timeText } from "../base/units";
import type { AskedStep, LessonPage, PageStep } from "../data/documents";
import { lanesNode } from "./lanes";
import type { Mark } from "./marks";
import { type Kept, type Sitting, standing } from "./sitting";

const SIGN: Record<string, string> = { hit: "✓", miss: "✗", unknown: "?", skipped: "–", "not asked": "–" };

// Text with `code` in it.
export function prose(text: string): Child[] {
  return text.split("`").map((part, at) => (at % 2 ? make("code", {}, nameOf(part)) : part));
}

function key(name: string): HTMLElement {
  return make("kbd", { "aria-hidden": "true" }, name);
}

// A button with its key.
export function keyed(name: string, text: string, onClick: () => void, attributes: Attributes = {}): HTMLButtonElement {
  return button([text, " ", key(name)], onClick, attributes);
}

export function listNode(lessons: LessonPage[], kept: Record<string, Kept>, open: (lesson: LessonPage) => void): HTMLElement {
  const row = (lesson: LessonPage) =>
    make(
      "li",
      {},
      button(
        [
          make("b", {}, `${lesson.number}`),
          make("span", {}, nameOf(lesson.title)),
          make(
            "span",
            { class: "faint" },
            [`${lesson.steps.length} questions`, standing(kept[lesson.kept_as])].filter(Boolean).join(" · "),
          ),
        ],
        () => open(lesson),
        { "data-lesson": lesson.number },
      ),
    );
  return make(
    "section",
    { class: "lesson", "aria-label": "Lessons" },
    make("h2", {}, "Lessons"),
    make(
      "p",
      {},
      "Read a few lines of code, predict what they do, and see at once why: each answer is measured on a recorded trace. " +
        "A lesson takes five to ten minutes.",
    ),
    make("ol", { class: "list" }, lessons.map(row)),
  );
}

// How each question fared; `shown` is the one on the page.
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
  return make(
    "div",
    { class: "controls" },
    input,
    keyed("Enter", "Answer", () => answer(input.value), { class: "submit" }),
  );
}

// What is said at once, and read out.
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
  const times = (names: [string, number][]) => names.map(([title, ns]) => [title, timeText(ns)]);
  const cells = [
    ...times([
      ["Self CPU", row.self_cpu_ns],
      ["CPU total", row.cpu_ns],
    ]),
    ...(step.has_gpu
      ? times([
          ["Self CUDA", row.self_gpu_ns],
          ["CUDA total", row.gpu_ns],
        ])
      : []),
    ["# of Calls", numberText(row.calls)],
  ];
  return make(
    "div",
    {},
    lanesNode(drawing),
    make(
      "table",
      { class: "row" },
      make("caption", {}, "In the profiler's table, all recorded calls: ", make("code", {}, nameOf(row.name))),
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          cells.map(([title]) => make("th", { scope: "col" }, title)),
        ),
      ),
      make(
        "tbody",
        {},
        make(
          "tr",
          {},
          cells.map(([, text]) => make("td", {}, text)),
        ),
      ),
    ),
  );
}

export function scoreText(sitting: Sitting): string {
  const more = ["skipped", "not asked"].filter((word) => sitting.count(word)).map((word) => `, ${sitting.count(word)} ${word}`);
  return `${sitting.hits} of ${sitting.asked} right${more.join("")}`;
}

interface Opening {
  lesson: LessonPage;
  go: () => void;
}

type OpenLesson = (number: string | undefined) => Opening | null;

export function endNode(sitting: Sitting, openLesson: OpenLesson): Child[] {
  const { lesson, marks, answers } = sitting;
  const played = (step: PageStep, at: number) =>
    make(
      "li",
      {},
      make("span", { class: `verdict ${marks[at].verdict}` }, SIGN[marks[at].verdict]),
      " ",
      prose(step.asked.text),
      " ",
      make("span", { class: "faint" }, nameOf(answers[at] === null ? step.asked.skipped || "skipped" : givenText(step, answers[at]))),
    );
  return [
    make("h3", { id: "question", tabindex: "-1" }, scoreText(sitting)),
    make("ol", { class: "played" }, lesson.steps.map(played)),
    make("h4", {}, "Read next"),
    make(
      "ul",
      { class: "read" },
      lesson.read.map((line) => make("li", {}, readNode(line, openLesson))),
    ),
  ];
}

function givenText(step: PageStep, answer: string): string {
  return step.kind === "choice" ? step.asked.choices[Number(answer) - 1] : answer;
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
