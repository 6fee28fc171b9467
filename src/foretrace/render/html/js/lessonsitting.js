// A lesson while it is played, and what is kept of it: the answers, in the browser's own storage where it has one.

import { markAnswer } from "./lessonmarks.js";

const PLACE = "foretrace-lessons";

export class Sitting {
  constructor(lesson) {
    this.lesson = lesson;
    this.restart();
  }

  restart() {
    this.answers = [];
    this.marks = [];
  }

  get at() { return this.answers.length; }
  get step() { return this.lesson.steps[this.at]; }
  get finished() { return this.at >= this.lesson.steps.length; }
  get hits() { return this.count("hit"); }
  get asked() { return this.lesson.steps.filter((step) => step.kind !== "skipped").length; }

  count(verdict) { return this.marks.filter((mark) => mark.verdict === verdict).length; }

  // The mark, or { problem } where the text is not an answer.
  answer(text) {
    const mark = markAnswer(this.step, text);
    return mark.problem === undefined ? this.note(text, mark) : mark;
  }

  skip() { return this.note(null, { verdict: this.step.kind === "skipped" ? "not asked" : "skipped", said: [] }); }

  note(text, mark) {
    this.answers.push(text);
    this.marks.push(mark);
    return mark;
  }

  // The question before that can be asked, unless this is the first.
  get before() {
    return this.marks.findLastIndex((mark) => mark.verdict !== "not asked");
  }

  back() {
    if (this.before < 0) return;
    this.answers.length = this.marks.length = this.before;
  }

  // The answers of an earlier sitting, as far as the lesson still takes them.
  resume(answers) {
    for (const text of answers) {
      if (this.finished || (text === null ? this.skip() : this.answer(String(text))).problem !== undefined) return;
    }
  }
}

// { kept_as: { answers, of, asked, hits } }; nothing where there is no storage, or where it holds something else.
export function readProgress() {
  try {
    const kept = JSON.parse(localStorage.getItem(PLACE)), sound = {};
    for (const [name, entry] of Object.entries(kept ?? {})) if (Array.isArray(entry?.answers)) sound[name] = entry;
    return sound;
  } catch {
    return {};
  }
}

export function keepProgress(sitting) {
  const { lesson, answers, hits, asked } = sitting;
  if (!lesson.kept_as) return; // one on a trace: another page may be about another trace
  try {
    localStorage.setItem(PLACE, JSON.stringify({ ...readProgress(), [lesson.kept_as]: { answers, of: lesson.steps.length, asked, hits } }));
  } catch {
    // progress is a convenience: a page in a frame or in a private window has none
  }
}

export function standing(entry) {
  if (!entry?.answers.length) return "";
  return entry.answers.length >= entry.of ? `${entry.hits} of ${entry.asked} right` : `at question ${entry.answers.length + 1}`;
}
