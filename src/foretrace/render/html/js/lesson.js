// The page of lessons: one question at a time, by keyboard or pointer. The keys are those of the terminal.

import { Colours } from "./colours.js";
import { button, byId, make, nameOf, replace } from "./dom.js";
import { predictableText } from "./lessonmarks.js";
import { Sitting, keepProgress, readProgress } from "./lessonsitting.js";
import { endNode, evidenceNode, keyed, listNode, prose, questionNode, saidNodes, trackNode } from "./lessonview.js";
import { followTheme } from "./theme.js";

class LessonPage {
  constructor(lessons) {
    this.lessons = lessons;
    this.node = byId("views");
    document.addEventListener("keydown", (event) => this.onKey(event));
    if (lessons.length > 1) this.showList();
    else this.open(lessons[0], false);
  }

  showList() {
    const last = this.sitting?.lesson.number;
    this.sitting = null;
    replace(this.node, listNode(this.lessons, readProgress(), (lesson) => this.open(lesson, true)));
    if (last) this.node.querySelector(`[data-lesson="${last}"]`)?.focus();
  }

  open(lesson, focus) {
    this.sitting = new Sitting(lesson);
    this.sitting.resume(readProgress()[lesson.kept_as]?.answers ?? []);
    if (this.sitting.finished) this.sitting.restart();
    this.frame();
    this.show(focus);
  }

  // What stays while a lesson is played. Live regions must be there before anything is said in them.
  frame() {
    const { lesson } = this.sitting, several = this.lessons.length > 1;
    this.track = make("div");
    this.question = make("div");
    this.hint = make("p", { id: "hint", role: "status" });
    this.keys = make("p", { class: "controls" });
    this.said = make("div", { class: "said", "aria-live": "polite" });
    this.evidence = make("div");
    this.next = make("p", { class: "controls" });
    replace(this.node, make("section", { class: "lesson", "aria-labelledby": "lesson-title" },
      several ? make("p", { class: "crumbs" }, keyed("Esc", "All lessons", () => this.showList(), { class: "link" })) : null,
      make("h2", { id: "lesson-title" }, lesson.number ? `Lesson ${lesson.number}: ` : null, nameOf(lesson.title)),
      this.track, this.question, this.keys, this.hint, this.said, this.evidence, this.next));
  }

  // The open question, or the end.
  show(focus) {
    this.mark = null;
    for (const part of [this.hint, this.said, this.evidence, this.next]) replace(part);
    this.redrawTrack();
    if (this.sitting.finished) this.showEnd();
    else {
      replace(this.question, ...questionNode(this.sitting.step, (text) => this.take(text)));
      const hint = this.sitting.step.kind === "skipped" ? null : keyed("?", "Hint", () => this.help());
      replace(this.keys, hint, keyed("s", hint ? "Skip" : "Continue", () => this.skip()), this.backButton());
    }
    if (!focus) return;
    (this.question.querySelector("input") ?? byId("question")).focus({ preventScroll: true });
    toTop(this.node);
  }

  backButton() {
    return this.sitting.before >= 0 ? keyed("b", "Back", () => this.back()) : null;
  }

  redrawTrack() {
    replace(this.track, trackNode(this.sitting, this.sitting.at - (this.mark ? 1 : 0)));
  }

  // What was typed: an answer, or one of the keys as at a terminal.
  take(text) {
    const typed = text.trim(), keys = { "?": () => this.help(), s: () => this.skip(), b: () => this.back() };
    if (!typed || this.mark) return;
    if (Object.hasOwn(keys, typed)) { keys[typed](); return; }
    const step = this.sitting.step, mark = this.sitting.answer(typed);
    if (mark.problem !== undefined) replace(this.hint, ...prose(mark.problem || predictableText(step, this.sitting.lesson)));
    else this.answered(step, typed, mark);
  }

  answered(step, typed, mark) {
    this.mark = mark;
    keepProgress(this.sitting);
    this.redrawTrack();
    for (const control of this.question.querySelectorAll("button, input")) {
      control.disabled = true;
      if (control.dataset.choice === typed) control.classList.add(mark.verdict);
      if (step.kind === "choice" && control.dataset.choice === step.right) control.classList.add("right");
    }
    replace(this.hint);
    replace(this.keys);
    replace(this.said, ...saidNodes(mark));
    replace(this.evidence, evidenceNode(step));
    const go = keyed("Enter", this.sitting.finished ? "See your score" : "Continue", () => this.show(true), { class: "go" });
    replace(this.next, go, this.backButton());
    go.focus({ preventScroll: true });
    if (go.getBoundingClientRect().bottom > innerHeight) toTop(this.said);
  }

  help() {
    const { step, lesson } = this.sitting;
    replace(this.hint, ...prose(step.asked.hint), step.kind === "prediction" ? [" ", predictableText(step, lesson)].join("") : null);
  }

  skip() {
    this.sitting.skip();
    keepProgress(this.sitting);
    this.show(true);
  }

  back() {
    if (this.sitting.before < 0) return;
    this.sitting.back();
    keepProgress(this.sitting);
    this.show(true);
  }

  showEnd() {
    const at = this.lessons.indexOf(this.sitting.lesson), next = this.lessons[at + 1];
    const link = (number) => {
      const lesson = this.lessons.find((each) => `${each.number}` === number);
      return lesson && lesson !== this.sitting.lesson ? { lesson, go: () => this.open(lesson, true) } : null;
    };
    replace(this.question, ...endNode(this.sitting, link));
    replace(this.keys);
    replace(this.next, next ? keyed("Enter", `Lesson ${next.number}`, () => this.open(next, true), { class: "go" }) : null,
      button("Play again", () => { this.sitting.restart(); keepProgress(this.sitting); this.show(true); }), this.backButton());
  }

  onKey(event) {
    if (!this.sitting || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const typing = event.target instanceof HTMLInputElement && !event.target.disabled, number = this.sitting.step?.kind === "number";
    if (typing && event.key !== "Escape" && (!number || event.target.value || !"?sb".includes(event.key))) return;
    if (this.pressed(event)) event.preventDefault();
  }

  // Whether the key did anything.
  pressed({ key, repeat, target }) {
    const open = !this.mark && !this.sitting.finished, choice = this.question.querySelector(`[data-choice="${CSS.escape(key)}"]`);
    if (open && /^\d$/.test(key)) this.question.querySelector("input")?.focus(); // the digit goes there
    if (key === "Escape" && this.lessons.length > 1) this.showList();
    else if (key === "b") this.back();
    else if (key === "Enter" && !open && !repeat && !(target instanceof HTMLButtonElement)) this.next.querySelector(".go")?.click();
    else if (open && key === "?") this.help();
    else if (open && key === "s") this.skip();
    else if (open && choice) choice.click();
    else return false;
    return true;
  }
}

// Scrolls this page alone, never the notebook around its frame.
function toTop(node) {
  window.scrollBy(0, node.getBoundingClientRect().top);
}

function startLessons() {
  const data = JSON.parse(byId("data").textContent);
  followTheme(new Colours(), () => {});
  window.lessonPage = new LessonPage(data.lessons); // for the curious, and for the tests
  document.documentElement.dataset.ready = "yes";
}

startLessons();
