// A lesson while it is played, and what is kept of it: the answers, in the browser's own storage where it has one.

import type { KnownMeasure, LessonPage, PagePredictable, PageReply, PageStep } from "../data/documents";

const PLACE = "foretrace-lessons";

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
    const { step } = this,
      marked = { choice: markChoice, number: markNumber }[step.kind] ?? markPrediction,
      mark = marked(step, text.trim());
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

// Marks an answer: a choice or a number by looking it up, a prediction by a measure or a statement that the page carries.

const COMPARES: Record<string, string> = {
  ...Object.fromEntries(["==", "!=", "<=", ">=", "<", ">", "~"].map((symbol) => [symbol, symbol])),
  "=": "==",
  "is at most": "<=",
  "at most": "<=",
  "up to": "<=",
  "is at least": ">=",
  "at least": ">=",
  "less than": "<",
  "fewer than": "<",
  under: "<",
  below: "<",
  "more than": ">",
  over: ">",
  above: ">",
  exactly: "==",
  about: "~",
  is: "==",
};
const SAID = Object.keys(COMPARES).sort((a, b) => b.length - a.length);
const PREDICTION = new RegExp(`^(.+?)\\s*(${SAID.join("|")})\\s*(\\d{1,15}(?:\\.\\d{1,15})?)\\s*([^\\s\\d]*)$`);
const STATEMENT = /^(?:(every|each|all|some|no) )?(.+?) (is|are|has|have) (not )?(.+)$/;
const ABOUT = 0.1;
const DIGITS = "12345678";
const NUMERALS = "zero one two three four five six seven eight nine ten eleven twelve".split(" ");

export interface Mark {
  verdict: string;
  said: string[];
}

// Why a text is not an answer; empty where there is no more to say than what would be one.
type Problem = { problem: string };

type Measured = { verdict: string; measured: string };

export function isProblem(found: object): found is Problem {
  return "problem" in found;
}

function replied(reply: PageReply, answer: string): Mark {
  return { verdict: reply.verdict, said: [...(reply.misread ? [`Not ${answer}. ${reply.misread}`] : []), reply.said] };
}

function markChoice(step: PageStep, answer: string): Mark | Problem {
  const digit = numeral(answer) ?? digitOf(step.asked.choices, answer);
  if (Object.hasOwn(step.replies, digit)) return replied(step.replies[digit], digit);
  return { problem: `'${digit}' is not an answer: enter ${Object.keys(step.replies).join(", ")}` };
}

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
  const whole = step.ranges.length === 1;
  if (whole && Number(number) % 1) return { problem: `'${answer}' is not an answer: enter a whole number` };
  const decimals = whole ? 0 : Math.min((number.split(".")[1] ?? "").length, step.ranges.length - 1);
  const scaled = Math.round(Number(number) * 10 ** decimals),
    { least, most } = step.ranges[decimals];
  return replied(least <= scaled && scaled <= most ? step.replies[step.right] : (step.replies[number] ?? step.replies[""]), number);
}

function markPrediction(step: PageStep, answer: string): Mark | Problem {
  if (!step.predictable) return { problem: "" };
  const region = `in ${(step.drawing?.region ?? "").toLowerCase()}:`,
    text = answer
      .toLowerCase()
      .replace(/[ ?.!]+$/, "")
      .replace(/\s+/g, " ")
      .trim();
  const plain = text.startsWith(region) ? text.slice(region.length).trim() : text;
  const { measures, statements, texts } = step.predictable,
    key = statementKey(statements, plain),
    stated = key === null ? null : { verdict: statements[key][0], measured: texts[statements[key][1]] };
  const found = markMeasure(measures, plain, answer) ?? stated;
  if (!found) return { problem: "" };
  return isProblem(found) ? found : { verdict: found.verdict, said: [`Measured: ${found.measured}. ${step.replies[""].said}`] };
}

function markMeasure(measures: Record<string, KnownMeasure>, text: string, answer: string): Measured | Problem | null {
  const [, name, compare, number, unit] = text.match(PREDICTION) ?? [];
  const measure = Object.hasOwn(measures, name ?? "") ? measures[name] : null;
  if (!measure) return null;
  const names = Object.keys(measure.units),
    known = names.find((each) => each.toLowerCase() === unit);
  if (known === undefined) return { problem: `'${answer}' has no unit: enter one of ${names.filter(Boolean).join(", ")}` };
  const factor = measure.units[known],
    counted = names.includes("");
  if (counted && Number(number) % 1) return { problem: `'${answer}' is not a prediction: enter a whole number` };
  const digits = (number.split(".")[1] ?? "").length;
  const amount = { value: Number(number) * factor, slack: counted ? 0 : 0.5 * 10 ** -digits * factor };
  return { verdict: holds(COMPARES[compare], measure.value, amount) ? "hit" : "miss", measured: measure.shown };
}

// What `guess/words.py` does for one measured value.
function holds(symbol: string, value: number, { value: wanted, slack }: { value: number; slack: number }): boolean {
  const near = (room: number) => Math.abs(value - wanted) <= room * (1 + 1e-9);
  const tests: Record<string, boolean> = {
    "==": near(slack),
    "!=": !near(slack),
    "~": near(Math.max(slack, ABOUT * wanted)),
    "<": value < wanted,
    "<=": value <= wanted,
    ">": value > wanted,
    ">=": value >= wanted,
  };
  return tests[symbol];
}

// The statement that says the same: another quantifier word, a plural, a value that no kernel has.
function statementKey(statements: PagePredictable["statements"], text: string): string | null {
  if (Object.hasOwn(statements, text)) return text;
  const [, every, subject, verb, not, rest] = text.match(STATEMENT) ?? [];
  if (!subject || (every && not)) return null;
  const quantifier = not ? "no" : every === "some" || every === "no" ? every : "every";
  const says = verb === "is" || verb === "are" ? "is" : "has";
  const field = rest.split(" ")[0];
  for (const one of [subject, subject.replace(/s$/, ""), subject.replace(/ kernels?$/, "")]) {
    const key = `${quantifier} ${one} ${says} `;
    const found = [`${key}${rest}`, ...(rest.includes(" ") ? [`${key}${field} *`] : [])].find((each) => Object.hasOwn(statements, each));
    if (found) return found;
  }
  return null;
}

export function predictableText(step: PageStep, lesson: LessonPage): string {
  const names = Object.keys(step.predictable?.measures ?? {}).join(", ");
  return (
    `This page marks a measure (${names}) with a number, such as kernels == 5, and statements such as every kernel is bf16. ` +
    `In a terminal, foretrace lesson ${lesson.number || "TRACE"} marks every prediction.`
  );
}
