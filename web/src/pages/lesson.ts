// The page of lessons: one question at a time, by keyboard or pointer. The keys are those of the terminal.

import "../lessons/lesson.css";
import { button, byId, make, nameOf, replace } from "../base/dom";
import type { LessonPage as Lesson, PageStep } from "../data/documents";
import { isProblem, keepProgress, type Mark, predictableText, readProgress, Sitting } from "../lessons/sitting";
import { endNode, evidenceNode, keyed, listNode, prose, questionNode, saidNodes, trackNode } from "../lessons/view";

class LessonPage {
  sitting: Sitting | null = null;
  mark: Mark | null = null;
  private readonly node = byId("views");
  // What stays while a lesson is played. Live regions must be there before anything is said in them.
  private readonly track = make("div");
  private readonly question = make("div");
  private readonly hint = make("p", { id: "hint", role: "status" });
  private readonly keys = make("p", { class: "controls" });
  private readonly said = make("div", { class: "said", "aria-live": "polite" });
  private readonly evidence = make("div");
  private readonly next = make("p", { class: "controls" });

  constructor(private readonly lessons: Lesson[]) {
    document.addEventListener("keydown", (event) => this.onKey(event));
    if (lessons.length > 1) this.showList();
    else this.open(lessons[0], false);
  }

  showList(): void {
    const last = this.sitting?.lesson.number;
    this.sitting = null;
    const list = listNode(this.lessons, readProgress(), (lesson) => this.open(lesson, true));
    replace(this.node, list);
    if (last) this.node.querySelector<HTMLElement>(`[data-lesson="${last}"]`)?.focus();
  }

  private open(lesson: Lesson, focus: boolean): void {
    const sitting = new Sitting(lesson);
    this.sitting = sitting;
    sitting.resume(readProgress()[lesson.kept_as]?.answers ?? []);
    if (sitting.finished) sitting.restart();
    this.frame(lesson);
    this.show(sitting, focus);
  }

  private frame(lesson: Lesson): void {
    const all = keyed("Esc", "All lessons", () => this.showList(), { class: "link" }),
      title = make("h2", { id: "lesson-title" }, lesson.number ? `Lesson ${lesson.number}: ` : null, nameOf(lesson.title)),
      parts = [this.track, this.question, this.keys, this.hint, this.said, this.evidence, this.next];
    const crumbs = this.lessons.length > 1 ? make("p", { class: "crumbs" }, all) : null;
    replace(this.node, make("section", { class: "lesson", "aria-labelledby": "lesson-title" }, crumbs, title, parts));
  }

  private show(sitting: Sitting, focus: boolean): void {
    this.mark = null;
    for (const part of [this.hint, this.said, this.evidence, this.next]) replace(part);
    this.redrawTrack(sitting);
    if (sitting.finished) this.showEnd(sitting);
    else {
      replace(this.question, ...questionNode(sitting.step, (text) => this.take(sitting, text)));
      const hint = sitting.step.kind === "skipped" ? null : keyed("?", "Hint", () => this.help(sitting)),
        skip = keyed("s", hint ? "Skip" : "Continue", () => this.skip(sitting));
      replace(this.keys, hint, skip, this.backButton(sitting));
    }
    if (!focus) return;
    (this.question.querySelector("input") ?? byId("question")).focus({ preventScroll: true });
    toTop(this.node);
  }

  private backButton(sitting: Sitting): HTMLElement | null {
    return sitting.before >= 0 ? keyed("b", "Back", () => this.back(sitting)) : null;
  }

  private redrawTrack(sitting: Sitting): void {
    replace(this.track, trackNode(sitting, sitting.at - (this.mark ? 1 : 0)));
  }

  // What was typed: an answer, or one of the keys as at a terminal.
  private take(sitting: Sitting, text: string): void {
    const typed = text.trim();
    const keys: Record<string, () => void> = { "?": () => this.help(sitting), s: () => this.skip(sitting), b: () => this.back(sitting) };
    if (!typed || this.mark) return;
    if (Object.hasOwn(keys, typed)) {
      keys[typed]();
      return;
    }
    const { step } = sitting,
      mark = sitting.answer(typed);
    if (isProblem(mark)) replace(this.hint, ...prose(mark.problem || predictableText(step, sitting.lesson)));
    else this.answered(sitting, step, typed, mark);
  }

  private answered(sitting: Sitting, step: PageStep, typed: string, mark: Mark): void {
    this.mark = mark;
    keepProgress(sitting);
    this.redrawTrack(sitting);
    for (const control of this.question.querySelectorAll<HTMLButtonElement | HTMLInputElement>("button, input")) {
      control.disabled = true;
      if (control.dataset.choice === typed) control.classList.add(mark.verdict);
      if (step.kind === "choice" && control.dataset.choice === step.right) control.classList.add("right");
    }
    replace(this.hint);
    replace(this.keys);
    replace(this.said, ...saidNodes(mark));
    replace(this.evidence, evidenceNode(step));
    const go = keyed("Enter", sitting.finished ? "See your score" : "Continue", () => this.show(sitting, true), { class: "go" });
    replace(this.next, go, this.backButton(sitting));
    go.focus({ preventScroll: true });
    if (go.getBoundingClientRect().bottom > innerHeight) toTop(this.said);
  }

  private help({ step, lesson }: Sitting): void {
    replace(this.hint, ...prose(step.asked.hint), step.kind === "prediction" ? [" ", predictableText(step, lesson)].join("") : null);
  }

  private skip(sitting: Sitting): void {
    sitting.skip();
    keepProgress(sitting);
    this.show(sitting, true);
  }

  private back(sitting: Sitting): void {
    if (sitting.before < 0) return;
    sitting.back();
    keepProgress(sitting);
    this.show(sitting, true);
  }

  private showEnd(sitting: Sitting): void {
    const next: Lesson | undefined = this.lessons[this.lessons.indexOf(sitting.lesson) + 1];
    const link = (number: string | undefined) => {
      const lesson = this.lessons.find((each) => `${each.number}` === number);
      return lesson && lesson !== sitting.lesson ? { lesson, go: () => this.open(lesson, true) } : null;
    };
    replace(this.question, ...endNode(sitting, link));
    replace(this.keys);
    replace(
      this.next,
      next ? keyed("Enter", `Lesson ${next.number}`, () => this.open(next, true), { class: "go" }) : null,
      button("Play again", () => {
        sitting.restart();
        keepProgress(sitting);
        this.show(sitting, true);
      }),
      this.backButton(sitting),
    );
  }

  private onKey(event: KeyboardEvent): void {
    const { sitting } = this;
    if (!sitting || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const input = event.target instanceof HTMLInputElement && !event.target.disabled ? event.target : null;
    const number = !sitting.finished && sitting.step.kind === "number";
    if (input && event.key !== "Escape" && (!number || input.value || !"?sb".includes(event.key))) return;
    if (this.pressed(sitting, event)) event.preventDefault();
  }

  private pressed(sitting: Sitting, { key, repeat, target }: KeyboardEvent): boolean {
    const open = !this.mark && !sitting.finished;
    const choice = this.question.querySelector<HTMLElement>(`[data-choice="${CSS.escape(key)}"]`);
    if (open && /^\d$/.test(key)) this.question.querySelector("input")?.focus(); // the digit goes there
    if (key === "Escape" && this.lessons.length > 1) this.showList();
    else if (key === "b") this.back(sitting);
    else if (key === "Enter" && !open && !repeat && !(target instanceof HTMLButtonElement))
      this.next.querySelector<HTMLElement>(".go")?.click();
    else if (open && key === "?") this.help(sitting);
    else if (open && key === "s") this.skip(sitting);
    else if (open && choice) choice.click();
    else return false;
    return true;
  }
}

// Scrolls this page alone, never the notebook around its frame.
function toTop(node: HTMLElement): void {
  window.scrollBy(0, node.getBoundingClientRect().top);
}

export function showLessons({ lessons }: { lessons: Lesson[] }): undefined {
  Object.assign(window, { lessonPage: new LessonPage(lessons) }); // for the curious, and for the tests
}
