// A lesson while it is played, and what is kept of it: the answers, in the browser's own storage where it has one.

import type { LessonPage, PageStep } from "../data/documents";
import { isProblem, type Mark, markAnswer, type Problem } from "./marks";

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
