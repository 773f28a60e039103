/** The texts of all cases for the search: what the list shows at once, the rest when it is unpacked. */

import type { Detail, Index, Trial } from "./data";

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
  const found: (string | null)[] = [];
  // Trials often say the same.
  const seen = new Set<string>();
  const add = (...texts: (string | null)[]): void => {
    for (const text of texts) {
      if (text !== null && text !== "" && !seen.has(text)) {
        seen.add(text);
        found.push(text);
      }
    }
  };
  const read = (trial: Trial): void => {
    add(trial.reason, trial.error);
    for (const turn of trial.turns) {
      add(turn.input, turn.response, turn.expected, turn.error, ...turn.problems, ...turn.context, ...turn.models);
      for (const call of turn.tools) add(call.name, call.args, call.result, call.error);
      for (const fact of turn.facts) add(fact.text);
      for (const tool of turn.expected_tools) add(tool.name, tool.args, tool.text);
      for (const chunk of turn.chunks) add(chunk.id, chunk.text);
      for (const evaluation of turn.evaluations) {
        add(evaluation.metric, evaluation.reason, evaluation.explanation, evaluation.judge, evaluation.details);
        for (const vote of evaluation.votes) add(vote.judge, vote.explanation);
      }
    }
  };
  add(...detail.remarks);
  detail.trials.forEach(read);
  detail.base?.forEach(read);
  return found as string[];
}
