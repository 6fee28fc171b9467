// Requests to the server that the page came from. It answers 202 while a trace is being opened: then the question is repeated.

const POLL_MS = 300;

// What the server says while a trace is being opened, and when it cannot be.
export interface Progress {
  state?: string;
  seconds?: number;
  bytes?: number;
  doing?: string;
  error?: string;
}

interface Asking {
  signal?: AbortSignal | undefined;
  opening?: (progress: Progress) => void; // called while the answer has to wait
}

export class Server {
  constructor(
    private readonly get: typeof fetch = (path, options) => fetch(path, options),
    private readonly wait = () => new Promise<void>((later) => setTimeout(later, POLL_MS)),
  ) {}

  // An answer in JSON. A failure is one line that a person can read.
  async ask<Answer>(path: string, { signal, opening }: Asking = {}): Promise<Answer> {
    for (;;) {
      const answer = await this.answer(path, signal);
      const isJson = answer.headers.get("content-type") === "application/json";
      const data = isJson ? await answer.json() : {};
      if (answer.status >= 400) throw new Error(data.error ?? `the server answered ${answer.status}`);
      if (answer.status !== 202) return data;
      opening?.(data);
      await this.wait();
    }
  }

  private async answer(path: string, signal?: AbortSignal): Promise<Response> {
    try {
      return await this.get(path, { signal: signal ?? null });
    } catch (problem) {
      if (signal?.aborted) throw problem;
      throw new Error("the server does not answer: run `foretrace serve` again, and open the address that it prints");
    }
  }
}
