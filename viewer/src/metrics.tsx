/** How the scores of each metric, times and costs are spread; a column of a drawing shows its cases. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { Histogram } from "./charts";
import type { Column } from "./choosing";
import { values } from "./choosing";
import type { Metric } from "./columns";
import { minimized } from "./columns";
import { count, duration, letterWord, number, plural, tone, usd, visible } from "./format";
import { useShared } from "./state";

export function MetricsView(): JSX.Element {
  const { page, dispatch } = useShared();
  const { head } = page;
  const pick = (column: Column, name: string) => (low: number, high: number, last: boolean): void => {
    dispatch({ do: "clear" });
    dispatch({ do: "filter", filters: { range: { column, name, low, high, last } } });
    dispatch({ do: "view", view: "cases" });
  };
  return (
    <div class="wide">
      <h2>Metrics</h2>
      <div class="cards">
        {page.metrics.map((metric, column) => (
          <MetricCard metric={metric} column={column} onPick={pick(`${column}`, metric.name)} />
        ))}
      </div>
      {!head.metrics.length && <p class="none">The suite has no metric with a score.</p>}
      <h2>Time and cost</h2>
      <div class="cards">
        <AmountCard name="Latency of a case" column="latency_ms" format={duration} onPick={pick("latency_ms", "latency in ms")} />
        <AmountCard name="Cost of a case" column="cost_usd" format={usd} onPick={pick("cost_usd", "cost in $")} />
        <AmountCard name="Tokens of a case" column="tokens" format={(value) => count(Math.round(value))} onPick={pick("tokens", "tokens")} />
      </div>
    </div>
  );
}

function MetricCard(props: { metric: Metric; column: number; onPick: (low: number, high: number, last: boolean) => void }): JSX.Element {
  const { page } = useShared();
  const { metric, column } = props;
  const { index, head } = page;
  const tones = useMemo(() => (row: number) => tone(letterWord(index.metric_outcomes[row]?.[column] ?? "-")), [index, column]);
  const lines = [
    ...(metric.threshold === null ? [] : [{ at: metric.threshold, name: `threshold ${number(metric.threshold)}`, class: "threshold" }]),
  ];
  const parts = [
    `${count(metric.passed)} passed`, `${count(metric.failed)} failed`,
    metric.errors ? `${count(metric.errors)} in error` : "", metric.skipped ? `${count(metric.skipped)} skipped` : "",
  ].filter(Boolean);
  return (
    <section class="card">
      <h3>
        {visible(metric.name)}
        {head.suites.length > 1 && <span class="soft"> {visible(head.suites[metric.suite]?.name ?? "")}</span>}
      </h3>
      <p>
        mean <b>{number(metric.mean)}</b>
        {metric.low !== null && metric.high !== null && <span class="soft"> (95 %: {number(metric.low)} to {number(metric.high)})</span>}
        <span class="soft"> · {parts.join(", ")}{minimized(metric) && " · low is good"}</span>
      </p>
      {index.scores[column]?.some((value) => value !== null) ? (
        <Histogram label={`Scores of ${metric.name}`} values={index.scores[column]!} tones={tones} low={metric.min} high={metric.max}
          lines={lines} format={(value) => number(value)} onPick={props.onPick} />
      ) : (
        <p class="none">There is no score.</p>
      )}
    </section>
  );
}

const calm = (): string => "plain";

function AmountCard(props: {
  name: string; column: Column; format: (value: number) => string; onPick: (low: number, high: number, last: boolean) => void;
}): JSX.Element {
  const { page } = useShared();
  const column = values(page.index, props.column);
  const known = useMemo(() => column.filter((value): value is number => value !== null).sort((one, other) => one - other), [column]);
  if (!known.length) {
    return <section class="card"><h3>{props.name}</h3><p class="none">Not measured.</p></section>;
  }
  const at = (share: number): number => known[Math.min(known.length - 1, Math.floor(share * known.length))]!;
  const total = known.reduce((sum, value) => sum + value, 0);
  return (
    <section class="card">
      <h3>{props.name}</h3>
      <p>
        median <b>{props.format(at(0.5))}</b>
        <span class="soft"> · 95 % below {props.format(at(0.95))} · most {props.format(at(1))} · sum {props.format(total)} of {plural(known.length, "case")}</span>
      </p>
      <Histogram label={props.name} values={column} tones={calm} low={0} high={at(0.99) || 1} format={props.format} onPick={props.onPick}
        lines={[{ at: at(0.5), name: "median", class: "median" }]} />
    </section>
  );
}
