/** The texts of all cases for the search: what the list shows at once, the rest when it is unpacked. */

import type { Index } from "./columns";
import type { Detail, Trial } from "./data";
import { chunksOf, factsOf, modelsOf, votesOf } from "./record";

export class Texts {
  private readonly short: string[];
  private readonly full: string[] = [];
  /** How many cases have been read. */
  read = 0;

  constructor(index: Index) {
    this.short = index.id.map((id, row) =>
      [id, index.title[row], index.reason[row], index.place[row], ...index.tags[row]!].join("\n").toLowerCase(),
    );
  }

  add(row: number, detail: Detail): void {
    this.full[row] = textsOf(detail).join("\n").toLowerCase();
  }

  has(row: number, words: readonly string[]): boolean {
    const short = this.short[row]!;
    const full = this.full[row];
    return words.every((word) => short.includes(word) || (full !== undefined && full.includes(word)));
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
  const read = (trial: Trial): void => {
    add(trial.reason, trial.error?.message);
    for (const turn of trial.turns) {
      add(turn.input, turn.response, turn.ground_truth, turn.error?.message, ...turn.problems, ...(turn.context ?? []), ...modelsOf(turn));
      for (const call of turn.tool_invocations ?? []) add(call.name, call.args, call.result, call.error);
      for (const [, text] of factsOf(turn)) add(text);
      for (const tool of turn.tool_assertions) add(tool.expected, tool.reason);
      for (const chunk of chunksOf(turn)) add(chunk.id, chunk.text);
      for (const evaluation of turn.evaluations) {
        add(evaluation.name, evaluation.reason, evaluation.explanation, evaluation.judge, evaluation.details);
        for (const vote of votesOf(evaluation)) add(vote.judge, vote.explanation);
      }
    }
  };
  add(...detail.remarks);
  detail.trials.forEach(read);
  detail.base?.forEach(read);
  return found;
}
