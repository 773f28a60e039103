/** The cases as columns, and the metrics with the axes that their scores are drawn on. */

import type { Block, Head, MetricView } from "./data";

/** All blocks as one; `scores` has a column a metric. */
export type Index = Required<Block>;

export interface Metric extends MetricView { min: number; max: number }

/** Whether low scores are good. */
export const minimized = (metric: MetricView | undefined): boolean => metric?.polarity === "minimize";

const NO_CASES: Index = {
  id: [], title: [], suite: [], position: [], outcome: [], flaky: [], change: [], reason: [], place: [], url: [], tags: [],
  command: [], scores: [], metric_outcomes: [], latency_ms: [], tokens: [], cost_usd: [], trials: [], passed_trials: [],
  runs: [], difference: [],
};

export function joined(blocks: Block[], metrics: number): Index {
  const names = Object.keys(NO_CASES) as (keyof Block)[];
  const columns = names.map((name) => [name, blocks.flatMap((block) => (block[name] ?? []) as unknown[])]);
  const index = Object.fromEntries(columns) as Index;
  return { ...index, scores: Array.from({ length: metrics }, (_, metric) => index.scores.map((means) => means[metric]!)) };
}

/** Most metrics score from 0 to 1; graders of a suite's own may do otherwise. */
export function metricsOf(head: Head, index: Index): Metric[] {
  return head.metrics.map((metric, column) => {
    const known = [...index.scores[column]!, metric.threshold].filter((one) => one !== null);
    return {
      ...metric,
      min: known.reduce((least, one) => Math.min(least, one), 0),
      max: known.reduce((most, one) => Math.max(most, one), 1),
    };
  });
}
