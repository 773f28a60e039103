/**
 * What the page holds, as holodeck_action/reports/page writes it; a test reads pages by these types.
 *
 * Times are in milliseconds, costs in US dollars, scores on the metric's own scale; what is unknown is null.
 */

export type Outcome = "passed" | "failed" | "error" | "skipped" | "informational" | "quarantined" | "pending";
export type Change = "regressed" | "flaky" | "undecided" | "improved" | "new" | "gone" | "changed" | "same";

export interface Gate { name: string; state: string; sentence: string }

/** Sentences of one kind, such as what judge cards say. */
export interface Remarks { title: string; lines: string[] }

export interface Suite {
  name: string;
  folder: string;
  outcome: string;
  sentence: string;
  target: string;
  counts: Record<string, number>;
  pass_rate: number | null;
  gates: Gate[];
  notices: string[];
  remarks: Remarks[];
  file: string | null;
}

/** A metric of a suite: `low` and `high` are the ends of the 95 % interval of `mean`, the counts are evaluations. */
export interface MetricView {
  name: string;
  suite: number;
  mean: number | null;
  low: number | null;
  high: number | null;
  threshold: number | null;
  margin: number | null;
  within_noise: boolean;
  polarity: string;
  cases: number;
  passed: number;
  failed: number;
  errors: number;
  skipped: number;
  informational: number;
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

/** A run of a page with several; `pass_rate` is a share. */
export interface RunColumn { name: string; outcome: string; sentence: string; pass_rate: number | null }

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
  /** Entry k of the scores of a case belongs to entry k. */
  metrics: MetricView[];
  base: Base | null;
  /** Oldest first. */
  history: PastRun[];
  run: RunFacts;
  /** The page's own run first; empty for a page of one run. */
  runs: RunColumn[];
  omitted: { cases: number; why: string; command: string } | null;
  live: string | null;
}

/**
 * Columns with one entry a case, of some hundred cases a block; those that need attention first, worst first.
 *
 * `position` is the place in the suite, `latency_ms` the time of the agent's work on all trials.
 */
export interface Block {
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
  /** The means of a case, one a metric. */
  scores: (number | null)[][];
  /** One letter a metric: p f e s i, and - for none. */
  metric_outcomes: string[];
  latency_ms: (number | null)[];
  tokens: (number | null)[];
  cost_usd: (number | null)[];
  trials: number[];
  passed_trials: number[];
  /** On a page of several runs: the outcome in each, the page's own first, null where a run does not have the case. */
  runs?: (Outcome | null)[][];
  /** On a page of several runs: the greatest difference between them. */
  difference?: ("verdict" | "answer" | null)[];
}

export interface ToolCall {
  name: string;
  /** JSON in lines, as is `result` unless it is a text. */
  args: string;
  result: string | null;
  bytes: number | null;
  duration_ms: number | null;
  error: string | null;
}

/** A call of the tool at a place of `tool_invocations`, or of a model; `start_ms` is from the start of the turn. What is unknown is absent, or null. */
export interface Step { tool?: number; model?: string; start_ms?: number | null; duration_ms?: number }

/** An expected tool call: `matched` is null where nobody knows. */
export interface ToolAssertion { expected: string; matched: boolean | null; matched_call_index: number; reason: string | null }

/** A retrieved text; `score` is the retriever's, on its own scale. */
export interface Chunk { id: string | null; text: string | null; score: number | null }

/** `context` of a turn's error is a text. */
export interface ErrorInfo { type: string; message: string; code: string; context: unknown }

/** An evaluation with its verdict: `category` is a score that is not a number, `details` what the evaluator tells besides, as JSON. */
export interface Evaluation {
  name: string;
  outcome: string;
  score: number | null;
  category: string | null;
  threshold: number | null;
  reason: string;
  explanation: string | null;
  /** A grader of the suite's own may keep anything under this name and the next. */
  judge: unknown;
  /** What each judge of a panel said. */
  votes: unknown;
  details: string | null;
  cost_usd: number | null;
  duration_ms: number | null;
}

export interface Usage {
  model?: string | null;
  prompt_tokens: number | null;
  completion_tokens: number | null;
  cached_tokens?: number | null;
  reasoning_tokens?: number | null;
  cost_usd: number | null;
  estimated?: boolean;
  /** The parts of several models. */
  models?: Usage[];
}

/** A turn of the record with its verdict; what the record does not always hold may be absent. */
export interface Turn {
  input: string;
  /** Who wrote the input of a simulated user; absent if no user is simulated. */
  said_by?: "script" | "model";
  response: string | null;
  ground_truth: string | null;
  outcome: Outcome;
  problems: string[];
  error: ErrorInfo | null;
  skipped: string | null;
  tool_invocations: ToolCall[] | null;
  /** In order of time; empty if it is unknown. */
  steps: Step[];
  tool_assertions: ToolAssertion[];
  retrieved_chunks: Chunk[] | null;
  /** Texts that metrics saw besides the chunks, from the turns before. */
  retrieval_context: string[];
  /** Texts of the turn's files. */
  context: string[] | null;
  evaluations: Evaluation[];
  usage: Usage | null;
  latency_ms: number | null;
  first_token_ms: number | null;
  finish_reason: string | null;
  model?: string | null;
  fallback_model: string | null;
  messages: string | null;
  metadata: string | null;
  /** What a coding agent changed; absent for other agents. */
  workspace?: Workspace;
}

/** `kept` is the place of the files in the run's folder. */
export interface Workspace { files: ChangedFile[]; cut: boolean; kept: string | null }

/** `difference` has the lines of a unified difference without its header; null if there is none, as for other files than small texts. */
export interface ChangedFile { path: string; change: string; difference: string | null }

/** The evaluations of all turns together. */
export interface Conversation {
  outcome: Outcome;
  problems: string[];
  evaluations: Evaluation[];
}

export interface Trial {
  /** The one that labels name, from 0. */
  index: number;
  outcome: Outcome;
  reason: string;
  error: ErrorInfo | null;
  turns: Turn[];
  /** Absent if no metric grades the whole conversation. */
  conversation?: Conversation;
  /** What the simulated user did; absent if no user is simulated. */
  user?: string;
}

/** `goal` is what a simulated user wants, `metrics` those that compare both answers. */
export interface PairSettings { conversation: boolean; goal: string | null; metrics: string[] }

export interface Detail {
  /** On the trials, and on what changed since the base. */
  remarks: string[];
  trials: Trial[];
  /** The same case in the record that this one is compared with. */
  base: Trial[] | null;
  /** How answers and those of the base are compared; absent if they are to different questions. */
  pair?: PairSettings;
  /** The same case in the other runs of a page of several. */
  others?: (Trial[] | null)[];
  /** A failing case as a task for a coding agent; absent for others. */
  task?: string;
}
