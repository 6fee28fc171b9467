// One question at a time: while it is on its way only the latest of those that follow is kept, so that a person who zooms never
// waits for views that are gone.

interface Waiting {
  begin: () => Promise<void>;
  drop: () => void;
}

export class Latest {
  private running = false;
  private waiting: Waiting | null = null;

  // The answer; an AbortError for a question that was overtaken before it was put.
  put<Answer>(question: () => Promise<Answer>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.waiting?.drop();
      this.waiting = {
        begin: () => question().then(resolve, reject),
        drop: () => reject(new DOMException("a later view was wanted", "AbortError")),
      };
      this.next();
    });
  }

  private next(): void {
    const { waiting } = this;
    if (this.running || !waiting) return;
    this.waiting = null;
    this.running = true;
    waiting.begin().finally(() => {
      this.running = false;
      this.next();
    });
  }
}
