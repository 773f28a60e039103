/** Two answers to the same question, this run's and the base's, that a reader compares without knowing whose they are. */

import type { Index } from "./columns";
import type { Detail, Evaluation, Head, Trial } from "./data";

export type Preference = "win" | "tie" | "loss";

/** What a reader says of two answers: a win if `response` is the better one; `annotator` as in `Opinion`. */
export interface PairLabel {
  suite: string;
  input: string;
  response: string;
  other: string;
  truth: string;
  label: Preference | null;
  comment: string;
  annotator: string | null;
}

export type PairLabels = ReadonlyMap<string, PairLabel>;

/** Where a pair is: `key` is of its content, `order` its place among all. */
export interface PairPlace { row: number; trial: number; key: string; order: number }

export interface Pair extends PairPlace {
  suite: string;
  question: string;
  /** This run's answer, and the base's. */
  ours: string;
  theirs: string;
  truth: string;
  conversation: boolean;
  /** Whether this run's answer is A. */
  first: boolean;
  /** What judges said of the pair. */
  verdicts: Evaluation[];
}

/** The page cuts longer texts. */
const LONGEST = 200_000;

/** A stable number of a text, in which each bit depends on each character. */
function hash(text: string, start = 0x811c9dc5): number {
  let sum = start;
  for (let at = 0; at < text.length; at++) sum = Math.imul(sum ^ text.charCodeAt(at), 0x01000193);
  sum = Math.imul(sum ^ (sum >>> 16), 0x85ebca6b);
  sum = Math.imul(sum ^ (sum >>> 13), 0xc2b2ae35);
  return (sum ^ (sum >>> 16)) >>> 0;
}

/** The same for both orders of the answers. */
export function pairKey(suite: string, question: string, one: string, other: string): string {
  const content = JSON.stringify([suite, question, ...[one, other].sort()]);
  return `${hash(content)} ${hash(content, 7)} ${content.length}`;
}

/** What is compared, as in holodeck_action/record/pair_texts.py; null without an answer. */
function answerOf(trial: Trial | undefined, conversation: boolean): string | null {
  const last = trial?.turns.at(-1);
  if (!trial || !last || trial.error !== null || trial.turns.some((turn) => turn.error !== null)) return null;
  if (last.response === null || !conversation || (trial.turns.length === 1 && trial.user === undefined)) return last.response;
  const messages = trial.turns.flatMap((turn) => [
    { role: "user", content: turn.input }, { role: "assistant", content: turn.response ?? "" },
  ]);
  return JSON.stringify(messages, null, 1);
}

/** The pairs of a case whose answers differ. */
export function pairsOf(head: Head, index: Index, row: number, detail: Detail): Pair[] {
  const { pair } = detail;
  if (!pair) return [];
  const suite = head.suites[index.suite[row]!]?.name ?? "";
  return detail.trials.flatMap((trial) => {
    const last = trial.turns.at(-1);
    const ours = answerOf(trial, pair.conversation);
    const theirs = answerOf(detail.base?.find((one) => one.index === trial.index), pair.conversation);
    if (!last || ours === null || theirs === null || ours === theirs) return [];
    const question = pair.goal ?? last.input;
    const truth = last.ground_truth ?? "";
    if ([question, ours, theirs, truth].some((text) => text.length > LONGEST)) return [];
    const chance = hash(JSON.stringify([suite, index.id[row], trial.index]));
    return [{
      row, trial: trial.index, key: pairKey(suite, question, ours, theirs), order: chance >>> 1, suite, question, ours, theirs, truth,
      conversation: pair.conversation, first: (chance & 1) === 1,
      verdicts: last.evaluations.filter((one) => pair.metrics.includes(one.name)),
    }];
  });
}

/** What a reader says of a pair, from this run's side; null without a label. */
export function preferred(labels: PairLabels, pair: Pair): Preference | null {
  const found = labels.get(pair.key);
  if (!found?.label || found.response === pair.ours) return found?.label ?? null;
  return turned(found.label);
}

const turned = (label: Preference): Preference => (label === "tie" ? "tie" : label === "win" ? "loss" : "win");
