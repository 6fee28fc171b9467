// Notes in words on a mark or a range. They are part of the address, and of a page that is saved with them.

import "./notes.css";
import { button, make, nameOf, replace } from "../../base/dom";
import { timeText } from "../../base/units";
import { type Context, shared } from "../../core/context";
import { home, padded } from "../../core/moving";
import { ReportSource } from "../../core/reportsource";
import { pageText } from "../../core/saving";
import { type Note, toAddress } from "../../core/store";
import type { Range } from "../../data/source";
import { download } from "./exporting";

const MOST_LETTERS = 200;

export function notes(context: Context): HTMLElement {
  const { store, keys, say } = context;
  const field = make("input", {
    type: "text",
    maxlength: MOST_LETTERS,
    "aria-label": "Note",
    placeholder: "note on the selection, the last mark or what is visible (N)",
  });
  const list = make("ul");
  const add = async () => {
    const text = field.value.trim();
    if (!text) return;
    const range = await about(context);
    store.set({ notes: [...store.state.notes, { from: Math.round(range.from), to: Math.round(range.to), text }] });
    field.value = "";
    say(`Noted: ${text}`);
  };
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") add();
    if (event.key === "Escape") field.blur();
  });
  keys.add("n", "write a note", () => field.focus());
  store.follow(["notes", "align"], () => {
    const items = store.state.notes.map((note) => item(context, note));
    replace(list, items);
  });
  const inPage = context.traces.every(({ source }) => source instanceof ReportSource);
  const save = button("save page", () => download(new Blob([pageText(toAddress(store.state))], { type: "text/html" }), "report.html"), {
    title: "Save this page with its notes, and what is shown",
  });
  return make("section", { class: "notes", "aria-label": "Notes" }, field, button("add note", add), inPage ? save : null, list);
}

async function about(context: Context): Promise<Range> {
  const { store, traces } = context,
    { selection, marks, view } = store.state;
  if (selection?.kind === "range") return selection.range;
  if (selection?.kind === "event") {
    const trace = traces[selection.trace],
      found = await trace?.source.details(selection.event),
      at = found?.event.indexOf(selection.event) ?? -1;
    if (found && at >= 0) return shared(trace, { from: found.start[at], to: found.start[at] + found.length[at] });
  }
  const last = marks.at(-1);
  return last === undefined ? (view ?? home(context)) : { from: last, to: last };
}

function item({ store }: Context, note: Note): HTMLElement {
  const go = () => store.set({ view: padded(note, 0.6), selection: note.to > note.from ? { kind: "range", range: note } : null });
  const remove = () => store.set({ notes: store.state.notes.filter((each) => each !== note) });
  const when = note.to > note.from ? `${timeText(note.from)}, ${timeText(note.to - note.from)} long` : timeText(note.from);
  return make(
    "li",
    {},
    button([nameOf(note.text), make("span", { class: "faint" }, ` at ${when}`)], go, { class: "link" }),
    button("×", remove, { "aria-label": `Remove the note ${note.text}` }),
  );
}
