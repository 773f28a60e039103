/** What earlier runs gave. */

import type { JSX } from "preact";
import { Trend } from "./charts";
import type { Metric } from "./columns";
import type { PastRun } from "./data";
import { duration, moment, number, percent, plural, usd, visible } from "./format";
import { useShared } from "./state";
import { Fold } from "./text";

export function TrendView(): JSX.Element {
  const { metrics, head: { history, suites } } = useShared().page;
  return (
    <div class="wide">
      {suites.map((suite, at) => {
        const runs = history.filter((run) => run.suite === at);
        if (!runs.length) return null;
        return <SuiteTrend name={visible(suite.name)} runs={runs} columns={metrics.flatMap((metric, column) => metric.suite === at ? [column] : [])} metrics={metrics} />;
      })}
    </div>
  );
}

function SuiteTrend(props: { name: string; runs: PastRun[]; metrics: Metric[]; columns: number[] }): JSX.Element {
  const { runs, metrics, columns } = props;
  const names = runs.map((run) => `${moment(run.when)}${run.sha ? ` (${visible(run.sha.slice(0, 9))})` : ""}`);
  const chart = (name: string, values: (number | null)[], format: (value: number) => string, floor: number | null, threshold: number | null = null): JSX.Element | null =>
    values.some((value) => value !== null) ? (
      <section class="card"><Trend name={name} values={values} names={names} format={format} floor={floor} threshold={threshold} /></section>
    ) : null;
  return (
    <>
      <h2>Trend of {props.name}</h2>
      <p class="soft">{plural(runs.length, "run")}, {moment(runs[0]!.when)} to {moment(runs[runs.length - 1]!.when)}</p>
      <div class="cards">
        {chart("Pass rate", runs.map((run) => run.pass_rate), percent, null)}
        {chart("Cost", runs.map((run) => run.cost_usd), usd, 0)}
        {chart("Latency", runs.map((run) => run.latency_ms), duration, 0)}
        {columns.map((column) => chart(visible(metrics[column]!.name), runs.map((run) => run.metrics[column] ?? null), (value) => number(value), null, metrics[column]!.threshold))}
      </div>
      <Fold name="The runs as a table" why="">
        <div class="scrolls" tabIndex={0} role="group" aria-label="Runs">
          <table>
            <thead>
              <tr><th>Run</th><th class="n">Pass rate</th><th class="n">Cost</th><th class="n">Latency</th>
                {columns.map((column) => <th class="n">{visible(metrics[column]!.name)}</th>)}</tr>
            </thead>
            <tbody>
              {runs.map((run, at) => (
                <tr>
                  <td>{names[at]}</td><td class="n">{percent(run.pass_rate)}</td><td class="n">{usd(run.cost_usd)}</td>
                  <td class="n">{duration(run.latency_ms)}</td>{columns.map((column) => <td class="n">{number(run.metrics[column] ?? null)}</td>)}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </Fold>
    </>
  );
}
