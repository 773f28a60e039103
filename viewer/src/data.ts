/** What the page holds. Times are in milliseconds, costs in US dollars; what is unknown is null. */

export type Outcome = "passed" | "failed" | "error" | "skipped" | "informational" | "quarantined" | "pending";
export type Change = "regressed" | "improved" | "new" | "gone" | "changed" | "same";

export interface Gate { name: string; state: string; sentence: string }

/** Sentences of one kind, such as what judge cards say. */
export interface Remarks { title: string; lines: string[] }

export interface Suite {
  name: string;
  folder: string;
  outcome: string;
  sentence: string;
  target: string;
  counts: Record<Outcome, number>;
  pass_rate: number | null;
  gates: Gate[];
  notices: string[];
  remarks: Remarks[];
  file: string | null;
}

export interface Metric {
  name: string;
  suite: number;
  threshold: number | null;
  /** Whether low scores are good. */
  minimize: boolean;
  min: number;
  max: number;
  mean: number | null;
  low: number | null;
  high: number | null;
  passed: number;
  failed: number;
  errors: number;
  skipped: number;
}

export interface Measure {
  name: string;
  base: number | null;
  head: number | null;
  low: number | null;
  high: number | null;
  change: string;
}

export interface Base { name: string; sha: string | null; when: string | null; sentence: string; measures: Measure[] }

/** A run of the history of a suite; `metrics` in the order of `Head.metrics`. */
export interface PastRun {
  suite: number;
  when: string;
  sha: string | null;
  pass_rate: number | null;
  cost_usd: number | null;
  latency_ms: number | null;
  metrics: (number | null)[];
}

export interface RunFacts {
  started: string | null;
  duration_ms: number | null;
  model_calls: number | null;
  cost: string | null;
  prompt_tokens: number | null;
  completion_tokens: number | null;
  tool_version: string;
  commit: string | null;
  commit_url: string | null;
  run_url: string | null;
}

export interface Head {
  version: 1;
  title: string;
  outcome: string;
  sentence: string;
  exit_code: number | null;
  suites: Suite[];
  /** Column k of `Index.scores` belongs to entry k. */
  metrics: Metric[];
  base: Base | null;
  /** Oldest first. */
  history: PastRun[];
  run: RunFacts;
  omitted: { cases: number; why: string; command: string } | null;
  live: string | null;
}

/** Columns with one entry a case; those that need attention first, worst first. `position` is the place in the suite. */
export interface Index {
  id: string[];
  title: string[];
  suite: number[];
  position: number[];
  outcome: Outcome[];
  flaky: boolean[];
  change: (Change | null)[];
  reason: string[];
  place: string[];
  url: (string | null)[];
  tags: string[][];
  /** "" where no command can be typed. */
  command: string[];
  scores: (number | null)[][];
  /** One letter a metric: p f e s i, and - for none. */
  metric_outcomes: string[];
  latency_ms: (number | null)[];
  tokens: (number | null)[];
  cost_usd: (number | null)[];
  trials: number[];
  passed_trials: number[];
}

export interface ToolCall {
  name: string;
  args: string;
  result: string | null;
  error: string | null;
  duration_ms: number | null;
}

export interface Vote { judge: string; outcome: string; score: number | null; explanation: string | null }

export interface Evaluation {
  metric: string;
  outcome: string;
  score: number | null;
  raw: string | null;
  threshold: number | null;
  reason: string;
  explanation: string | null;
  judge: string | null;
  votes: Vote[];
  /** What the evaluator tells besides, as JSON. */
  details: string | null;
  cost_usd: number | null;
  duration_ms: number | null;
}

export interface Turn {
  input: string;
  response: string | null;
  expected: string | null;
  outcome: Outcome;
  error: string | null;
  problems: string[];
  tools: ToolCall[];
  expected_tools: { name: string; args: string | null; ok: boolean | null; text: string }[];
  chunks: { id: string | null; text: string; score: number | null }[];
  context: string[];
  evaluations: Evaluation[];
  facts: { name: string; text: string }[];
  latency_ms: number | null;
  first_token_ms: number | null;
  tokens: number | null;
  cost_usd: number | null;
  models: string[];
}

export interface Trial {
  /** The one that labels name, from 0. */
  index: number;
  outcome: Outcome;
  reason: string;
  turns: Turn[];
  latency_ms: number | null;
  cost_usd: number | null;
  tokens: number | null;
  error: string | null;
}

export interface Detail {
  remarks: string[];
  trials: Trial[];
  /** The same case in the record that this one is compared with. */
  base: Trial[] | null;
}
