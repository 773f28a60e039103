/** The texts of all cases for the search: what the list shows at once, the rest when it is unpacked. */

import type { Index } from "./columns";
import type { Detail, Evaluation, Trial } from "./data";
import { chunksOf, factsOf, modelsOf, votesOf } from "./record";

/** Where a search finds its words, the best place first. `several` is no single place. */
export const FIELDS = ["title", "id", "tag", "reason", "texts", "place", "several"] as const;
export type Field = (typeof FIELDS)[number];

export class Texts {
  private readonly short: [Field, string][][];
  private readonly full: string[] = [];

  constructor(index: Index) {
    this.short = index.id.map((id, row) => {
      const fields: [Field, string][] = [
        ["title", index.title[row]!], ["id", id], ["tag", index.tags[row]!.join("\n")],
        ["reason", index.reason[row]!], ["place", index.place[row]!],
      ];
      return fields.map(([field, text]) => [field, text.toLowerCase()]);
    });
  }

  add(row: number, detail: Detail): void {
    this.full[row] = textsOf(detail).join("\n").toLowerCase();
  }

  /** The best field that has all words; null if a word is nowhere. */
  find(row: number, words: readonly string[]): Field | null {
    const texts = [...this.short[row]!, ["texts", this.full[row] ?? ""] as const];
    const whole = texts.filter(([, text]) => words.every((word) => text.includes(word))).map(([field]) => field);
    if (whole.length) return FIELDS.find((field) => whole.includes(field)) ?? null;
    return words.every((word) => texts.some(([, text]) => text.includes(word))) ? "several" : null;
  }
}

function textsOf(detail: Detail): string[] {
  const found: string[] = [];
  // Trials often say the same.
  const seen = new Set<string>();
  const add = (...texts: unknown[]): void => {
    for (const text of texts) {
      if (typeof text === "string" && text !== "" && !seen.has(text)) {
        seen.add(text);
        found.push(text);
      }
    }
  };
  const graded = (evaluations: Evaluation[]): void => {
    for (const evaluation of evaluations) {
      add(evaluation.name, evaluation.reason, evaluation.explanation, evaluation.judge, evaluation.details);
      for (const vote of votesOf(evaluation)) add(vote.judge, vote.explanation);
    }
  };
  const read = (trial: Trial): void => {
    add(trial.reason, trial.error?.message);
    for (const turn of trial.turns) {
      add(turn.input, turn.response, turn.ground_truth, turn.error?.message, ...turn.problems, ...(turn.context ?? []), ...modelsOf(turn));
      for (const call of turn.tool_invocations ?? []) add(call.name, call.args, call.result, call.error);
      for (const [, text] of factsOf(turn)) add(text);
      for (const tool of turn.tool_assertions) add(tool.expected, tool.reason);
      for (const chunk of chunksOf(turn)) add(chunk.id, chunk.text);
      for (const file of turn.workspace?.files ?? []) add(file.path, file.difference);
      graded(turn.evaluations);
    }
    add(...(trial.conversation?.problems ?? []));
    graded(trial.conversation?.evaluations ?? []);
  };
  add(...detail.remarks);
  detail.trials.forEach(read);
  detail.base?.forEach(read);
  detail.others?.forEach((trials) => trials?.forEach(read));
  return found;
}
