/** The beginnings of questions and answers, for cells of the table. */

import type { Detail, Trial } from "./data";

/** Characters of a cell: more have no room. */
const LONGEST = 300;

export interface Excerpt { input: string; expected: string | null; answer: string | null; base: string | null }

/** The turn that explains the case: the first one with a problem, else the last one. */
export function excerptOf(detail: Detail): Excerpt {
  const shown = detail.trials.length ? detail.trials : (detail.base ?? []);
  const trial = shown.find((one) => one.outcome === "failed" || one.outcome === "error") ?? shown[0];
  const at = turnOf(trial);
  const turn = trial?.turns[at];
  const before = (detail.base?.find((one) => one.index === trial?.index) ?? detail.base?.[0])?.turns[at];
  return {
    input: start(turn?.input ?? "") ?? "",
    expected: start(turn?.ground_truth ?? null),
    answer: detail.trials.length ? start(turn?.response ?? null) : null,
    base: start(before?.response ?? null),
  };
}

function turnOf(trial: Trial | undefined): number {
  const at = trial?.turns.findIndex((turn) => turn.problems.length > 0 || turn.error !== null) ?? -1;
  return at >= 0 ? at : (trial?.turns.length ?? 0) - 1;
}

/** One line. Half of a pair at its end is cut off. */
function start(text: string | null): string | null {
  return text === null ? null : text.slice(0, LONGEST).replace(/[\ud800-\udbff]$/, "").replace(/\s+/g, " ").trim();
}
