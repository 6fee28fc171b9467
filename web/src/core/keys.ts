// One table of keys: views add theirs, the page listens once, and the help shows the table.

export interface Key {
  key: string; // as `KeyboardEvent.key`; single letters in lower case
  text: string; // what it does, for the help
  run: (event: KeyboardEvent) => unknown; // false: not mine now
}

export class KeyMap {
  readonly keys: Key[] = [];

  add(key: string, text: string, run: Key["run"]): void {
    this.keys.push({ key, text, run });
  }

  press(pressed: string): void {
    this.keys.find(({ key }) => key === pressed)?.run(new KeyboardEvent("keydown", { key: pressed }));
  }

  // Whether a key was taken. Keys in fields of text belong to the field.
  handle(event: KeyboardEvent): boolean {
    const { target } = event,
      isField = target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
    if (event.ctrlKey || event.metaKey || event.altKey || isField) return false;
    const pressed = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    return this.keys.some(({ key, run }) => key === pressed && run(event) !== false);
  }
}
