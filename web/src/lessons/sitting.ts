// A lesson while it is played, and what is kept of it: the answers, in the browser's own storage where it has one.

import type { KnownMeasure, LessonPage, PagePredictable, PageReply, PageStep } from "../data/documents";

const PLACE = "foretrace-lessons";

// What is kept of one lesson.
export interface Kept {
  answers: (string | null)[];
  of: number;
  asked: number;
  hits: number;
}

export class Sitting {
  answers: (string | null)[] = [];
  marks: Mark[] = [];

  constructor(readonly lesson: LessonPage) {}

  restart(): void {
    this.answers = [];
    this.marks = [];
  }

  get at() {
    return this.answers.length;
  }
  get step(): PageStep {
    return this.lesson.steps[this.at];
  }
  get finished() {
    return this.at >= this.lesson.steps.length;
  }
  get hits() {
    return this.count("hit");
  }
  get asked() {
    return this.lesson.steps.filter((step) => step.kind !== "skipped").length;
  }

  count(verdict: string): number {
    return this.marks.filter((mark) => mark.verdict === verdict).length;
  }

  answer(text: string): Mark | Problem {
    const mark = markAnswer(this.step, text);
    return isProblem(mark) ? mark : this.note(text, mark);
  }

  skip(): Mark {
    return this.note(null, { verdict: this.step.kind === "skipped" ? "not asked" : "skipped", said: [] });
  }

  private note(text: string | null, mark: Mark): Mark {
    this.answers.push(text);
    this.marks.push(mark);
    return mark;
  }

  // The question before that can be asked, unless this is the first.
  get before(): number {
    return this.marks.findLastIndex((mark) => mark.verdict !== "not asked");
  }

  back(): void {
    if (this.before < 0) return;
    this.answers.length = this.marks.length = this.before;
  }

  // The answers of an earlier sitting, as far as the lesson still takes them.
  resume(answers: (string | null)[]): void {
    for (const text of answers) {
      if (this.finished || isProblem(text === null ? this.skip() : this.answer(String(text)))) return;
    }
  }
}

// By the name that a lesson is kept as; nothing where there is no storage, or where it holds something else.
export function readProgress(): Record<string, Kept> {
  try {
    const kept = JSON.parse(localStorage.getItem(PLACE) ?? "null"),
      sound: Record<string, Kept> = {};
    for (const [name, entry] of Object.entries<Kept | null>(kept ?? {})) if (entry && Array.isArray(entry.answers)) sound[name] = entry;
    return sound;
  } catch {
    return {};
  }
}

export function keepProgress(sitting: Sitting): void {
  const { lesson, answers, hits, asked } = sitting;
  if (!lesson.kept_as) return; // one on a trace: another page may be about another trace
  try {
    localStorage.setItem(PLACE, JSON.stringify({ ...readProgress(), [lesson.kept_as]: { answers, of: lesson.steps.length, asked, hits } }));
  } catch {
    // progress is a convenience: a page in a frame or in a private window has none
  }
}

export function standing(entry: Kept | undefined): string {
  if (!entry?.answers.length) return "";
  return entry.answers.length >= entry.of ? `${entry.hits} of ${entry.asked} right` : `at question ${entry.answers.length + 1}`;
}

// Marks an answer: a choice or a number by looking it up, a prediction by a quantity whose value, or whose words, the page carries.

const COMPARED = /^(.+?)\s*(==|!=|<=|>=|<|>|~)\s*(\d{1,15}(?:\.\d{1,15})?)\s*([^\s\d]*)$/;
const STATED = /^(.+?)\s*==\s*"?([^"]+)"?$/;
const ABOUT = 0.1;
const DIGITS = "12345678";
const NUMERALS = "zero one two three four five six seven eight nine ten eleven twelve".split(" ");

// How an answer fared, and what is said about it in sentences.
export interface Mark {
  verdict: string;
  said: string[];
}

// Why a text is not an answer; empty where there is no more to say than what would be one.
interface Problem {
  problem: string;
}

interface Measured {
  verdict: string;
  measured: string;
}

export function isProblem(found: object): found is Problem {
  return "problem" in found;
}

function markAnswer(step: PageStep, typed: string): Mark | Problem {
  const answer = typed.trim();
  if (step.kind === "choice") return markChoice(step, answer);
  return step.kind === "number" ? markNumber(step, answer) : markPrediction(step, answer);
}

function replied(reply: PageReply, answer: string): Mark {
  return { verdict: reply.verdict, said: [...(reply.misread ? [`Not ${answer}. ${reply.misread}`] : []), reply.said] };
}

function markChoice(step: PageStep, answer: string): Mark | Problem {
  const digit = numeral(answer) ?? digitOf(step.asked.choices, answer);
  if (Object.hasOwn(step.replies, digit)) return replied(step.replies[digit], digit);
  return { problem: `'${digit}' is not an answer: enter ${Object.keys(step.replies).join(", ")}` };
}

// The number that one word says.
function numeral(answer: string): string | undefined {
  const at = NUMERALS.indexOf(answer.toLowerCase());
  return at < 0 ? undefined : String(at);
}

// The digit of the one choice that has the words of an answer; the answer itself where none or several have.
function digitOf(choices: string[], answer: string): string {
  const words = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}_]+%?/gu) ?? [];
  const given = words(answer),
    texts = choices.map(words);
  const having = (test: (words: string[]) => boolean) => texts.flatMap((each, at) => (test(each) ? [at + 1] : []));
  const whole = having((each) => each.join(" ") === given.join(" ")),
    part = having((each) => given.length > 0 && given.every((word) => each.includes(word)));
  const found = whole.length ? whole : part;
  return DIGITS.includes(answer) || found.length !== 1 ? answer : String(found[0]);
}

// A number means what its digits say, so that the range of right ones depends on its decimals.
function markNumber(step: PageStep, answer: string): Mark | Problem {
  const plain = answer
    .replace(/percent$/i, "")
    .replace(/[% ]+$/, "")
    .replaceAll(",", "");
  const number = numeral(plain) ?? plain;
  if (!/^\d{1,15}(\.\d{1,15})?$/.test(number)) return { problem: `'${answer}' is not an answer: enter a number` };
  const decimals = Math.min((number.split(".")[1] ?? "").length, step.ranges.length - 1);
  const scaled = Math.round(Number(number) * 10 ** decimals),
    { least, most } = step.ranges[decimals];
  return replied(least <= scaled && scaled <= most ? step.replies[step.right] : (step.replies[number] ?? step.replies[""]), number);
}

function markPrediction(step: PageStep, answer: string): Mark | Problem {
  if (!step.predictable) return { problem: "" };
  const region = `in ${step.drawing?.region ?? ""}:`,
    text = answer.replace(/\s+/g, " ").trim();
  const found = measured(step.predictable, text.startsWith(region) ? text.slice(region.length).trim() : text);
  if (!found || isProblem(found)) return found ?? { problem: "" };
  return { verdict: found.verdict, said: [`Measured: ${found.measured}. ${step.replies[""].said}`] };
}

function measured({ measures, words, marks }: PagePredictable, text: string): Measured | Problem | null {
  if (Object.hasOwn(marks, text)) return { verdict: marks[text][0], measured: marks[text][1] };
  const [, name, compare, number, unit] = text.match(COMPARED) ?? [];
  if (Object.hasOwn(measures, name ?? "")) return markMeasure(measures[name], compare, number, unit);
  const [, stated, word] = text.match(STATED) ?? [];
  if (!Object.hasOwn(words, stated ?? "")) return null;
  return { verdict: words[stated].hold.includes(word.toLowerCase()) ? "hit" : "miss", measured: words[stated].shown };
}

function markMeasure(measure: KnownMeasure, compare: string, number: string, unit: string): Measured | Problem {
  if (!Object.hasOwn(measure.units, unit))
    return { problem: `enter a unit: one of ${Object.keys(measure.units).filter(Boolean).join(", ")}` };
  const factor = measure.units[unit],
    digits = (number.split(".")[1] ?? "").length;
  const amount = { value: Number(number) * factor, slack: unit || digits ? 0.5 * 10 ** -digits * factor : 0 };
  return { verdict: holds(compare, measure.value, amount) ? "hit" : "miss", measured: measure.shown };
}

// What `check/judging.py` does for one measured value.
function holds(symbol: string, value: number, { value: wanted, slack }: { value: number; slack: number }): boolean {
  const near = (room: number) => Math.abs(value - wanted) <= room * (1 + 1e-9);
  switch (symbol) {
    case "==":
      return near(slack);
    case "!=":
      return !near(slack);
    case "~":
      return near(ABOUT * wanted);
    case "<":
      return value < wanted;
    case "<=":
      return value <= wanted;
    case ">":
      return value > wanted;
    default:
      return value >= wanted;
  }
}

// What can be predicted here, as a hint.
export function predictableText(step: PageStep, lesson: LessonPage): string {
  const names = Object.keys(step.predictable?.measures ?? {}).join(", ");
  return (
    `This page marks a quantity (${names}) with a number, such as kernels == 5, and words of kernels, such as dtype(gemm) == bf16. ` +
    `In a terminal, foretrace lesson ${lesson.number || "TRACE"} marks every prediction.`
  );
}
