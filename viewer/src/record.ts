/** What follows from a record, for the reader. */

import type { Chunk, Evaluation, Turn } from "./data";

/** What was retrieved in the turn, and then what the metrics saw besides. */
export const chunksOf = (turn: Turn): Chunk[] =>
  [...(turn.retrieved_chunks ?? []), ...turn.retrieval_context.map((text) => ({ id: null, text, score: null }))];

/** What else is told of a turn: names and texts. */
export function factsOf(turn: Turn): [string, string][] {
  const told: [string, string | null][] = [
    ["not run", turn.skipped],
    ["why the model stopped", turn.finish_reason],
    ["fallback model", turn.fallback_model],
    ["what the error tells besides", (turn.error?.context ?? null) as string | null],
    ["messages", turn.messages],
    ["metadata", turn.metadata],
  ];
  return told.filter((fact): fact is [string, string] => fact[1] !== null);
}

export function modelsOf(turn: Turn): string[] {
  const parts = (turn.usage?.models ?? []).flatMap((part) => part.model ?? []);
  return parts.length || turn.model == null ? parts : [turn.model];
}

/** The tokens of prompt and answer, over what is known. */
export function tokensOf(turn: Turn): number | null {
  const known = [turn.usage?.prompt_tokens, turn.usage?.completion_tokens].filter((one) => one != null);
  return known.length ? known.reduce((sum, one) => sum + one, 0) : null;
}

export interface Vote { judge: string; outcome: string; score: number | null; explanation: string | null }

/** What each judge of a panel said. */
export function votesOf(evaluation: Evaluation): Vote[] {
  const { votes } = evaluation;
  return (Array.isArray(votes) ? votes : []).flatMap((one: unknown) => voteOf(one) ?? []);
}

function voteOf(vote: unknown): Vote | null {
  const [judge, passed, score, error] = ["model", "passed", "score", "error"].map((name) => field(vote, name));
  if (typeof judge !== "string") return null;
  const broke = typeof error === "object" && passed == null && score == null;
  const said = broke ? field(error, "message") : field(vote, "reason");
  return {
    judge: field(vote, "fallback") === true ? `${judge} (fallback)` : judge,
    outcome: broke ? "error" : typeof passed !== "boolean" ? "informational" : passed ? "passed" : "failed",
    score: typeof score === "number" ? score : null,
    explanation: typeof said === "string" && said ? said : null,
  };
}

/** A field of what may be anything; undefined where it has none, as where it is null. */
const field = (value: unknown, name: string): unknown =>
  (typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined) ?? undefined;
