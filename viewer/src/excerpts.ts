/** The beginnings of questions and answers, for cells of the table. */

import type { Detail, Trial } from "./data";

/** Characters of a cell: more have no room. */
const LONGEST = 300;

/** `others` are the answers of the other runs of a page of several; `asked` is false if the question or the expected answer was another. */
export interface Excerpt {
  input: string; expected: string | null; answer: string | null; base: string | null;
  others: ({ answer: string | null; asked: boolean } | null)[];
}

/** The turn that explains the case: the first one with a problem, else the last one. */
export function excerptOf(detail: Detail, full = false): Excerpt {
  const start = full ? (text: string | null) => text : beginning;
  const others = detail.others ?? [];
  const runs = [detail.trials, detail.base ?? [], ...others.map((trials) => trials ?? [])];
  const shown = runs.find((trials) => trials.length) ?? [];
  const trial = shown.find((one) => one.outcome === "failed" || one.outcome === "error") ?? shown[0];
  const sameTrial = (trials: Trial[]): Trial | undefined => trials.find((one) => one.index === trial?.index) ?? trials[0];
  // A turn with a problem in another run explains the case, too.
  const at = [trial, ...others.map((trials) => sameTrial(trials ?? []))].map(problemOf).find((place) => place >= 0)
    ?? (trial?.turns.length ?? 0) - 1;
  const turn = trial?.turns[at];
  const before = sameTrial(detail.base ?? [])?.turns[at];
  return {
    input: start(turn?.input ?? "") ?? "",
    expected: start(turn?.ground_truth ?? null),
    answer: detail.trials.length ? start(turn?.response ?? null) : null,
    base: start(before?.response ?? null),
    others: others.map((trials) => {
      const other = trials && sameTrial(trials)?.turns[at];
      return other ? { answer: start(other.response), asked: other.input === turn?.input && other.ground_truth === turn.ground_truth } : null;
    }),
  };
}

/** The first turn with a problem; -1 if there is none. */
function problemOf(trial: Trial | undefined): number {
  return trial?.turns.findIndex((turn) => turn.problems.length > 0 || turn.error !== null) ?? -1;
}

/** One line. Half of a pair at its end is cut off. */
function beginning(text: string | null): string | null {
  return text === null ? null : text.slice(0, LONGEST).replace(/[\ud800-\udbff]$/, "").replace(/\s+/g, " ").trim();
}
