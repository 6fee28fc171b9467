// What a finding saves: as a replay of the step predicts it, or its bound.

import { timeText } from "../base/units";
import type { Finding } from "../data/documents";

export function savingText({ saves_ns, at_most_ns }: Finding): string {
  if (saves_ns !== null) return `about ${timeText(saves_ns)}`;
  return at_most_ns === null ? "" : `at most ${timeText(at_most_ns)}`;
}
