/** What came out, on one page: verdict, gates, metrics, and the facts of the run. */

import type { ComponentChildren, JSX } from "preact";
import type { Index, Metric } from "./columns";
import { minimized } from "./columns";
import type { Outcome, Suite } from "./data";
import { ScoreBar } from "./evaluations";
import { OUTCOMES, count, duration, moment, number, outcomeWord, percent, plural, tone, visible, webLink } from "./format";
import { Badge, Mark } from "./icons";
import { useShared } from "./state";
import { Fold } from "./text";

export function Summary(): JSX.Element {
  const { page } = useShared();
  const { head, index } = page;
  return (
    <div class="overview">
      <header class="verdict">
        <div class="line"><Badge outcome={head.outcome} />{head.exit_code !== null && <span class="soft">exit code {head.exit_code}</span>}</div>
        <h2 dir="auto">{visible(head.title)}</h2>
        <p dir="auto">{visible(head.sentence)}</p>
        <OutcomeBar index={index} />
      </header>
      {head.omitted && (
        <p class="note">
          The details of {plural(head.omitted.cases, "case")} are not in this page: {visible(head.omitted.why)}{" "}
          <code>{visible(head.omitted.command)}</code>
        </p>
      )}
      {head.suites.map((suite) => <SuiteSummary suite={suite} several={head.suites.length > 1} />)}
      {head.metrics.length > 0 && <MetricTable />}
      {head.base && (
        <section><h3>Compared with {visible(head.base.name)}</h3><p dir="auto">{visible(head.base.sentence)}</p></section>
      )}
      <RunFacts />
    </div>
  );
}

/** The share of each outcome, as one bar. */
function OutcomeBar(props: { index: Index }): JSX.Element {
  const { dispatch } = useShared();
  const { outcome } = props.index;
  const counts = new Map<Outcome, number>();
  for (const one of outcome) counts.set(one, (counts.get(one) ?? 0) + 1);
  const present = [...OUTCOMES].reverse().filter((one) => counts.has(one));
  let left = 0;
  return (
    <div class="outcomes">
      <svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">
        {present.map((one) => {
          const width = (counts.get(one)! / outcome.length) * 1000;
          left += width;
          return <rect class={tone(one)} x={left - width} y="0" width={Math.max(2, width - 2)} height="10" />;
        })}
      </svg>
      <p>
        {present.map((one) => (
          <button type="button" class="plain" onClick={() => {
            dispatch({ do: "filter", filters: { outcomes: [one] } });
            dispatch({ do: "view", view: "cases" });
          }}>
            <Mark outcome={one} /> <b>{count(counts.get(one)!)}</b> {outcomeWord(one)}
          </button>
        ))}
      </p>
    </div>
  );
}

function SuiteSummary(props: { suite: Suite; several: boolean }): JSX.Element {
  const { suite } = props;
  return (
    <section>
      {props.several ? (
        <>
          <h3><Mark outcome={suite.outcome} label /> {visible(suite.name)} <span class="soft">{visible(suite.folder)}</span></h3>
          <p dir="auto">{visible(suite.sentence)}</p>
        </>
      ) : (
        <h3>Gates</h3>
      )}
      <p class="soft">Pass rate {percent(suite.pass_rate)} · target <code>{visible(suite.target)}</code></p>
      <ul class="gates">
        {suite.gates.map((gate) => (
          <li><Mark outcome={gate.state} label /><span dir="auto">{!gate.sentence.startsWith(gate.name) && <b>{visible(gate.name)}: </b>}{visible(gate.sentence)}</span></li>
        ))}
      </ul>
      {suite.notices.map((notice) => <p class="note" dir="auto">{visible(notice)}</p>)}
      {suite.remarks.map((remark) => (
        <Fold name={visible(remark.title)} why={remark.lines[0]!}>
          <ul>{remark.lines.map((line) => <li dir="auto">{visible(line)}</li>)}</ul>
        </Fold>
      ))}
    </section>
  );
}

function MetricTable(): JSX.Element {
  const { page, dispatch } = useShared();
  const show = (column: number, letter: string): void => {
    dispatch({ do: "clear" });
    dispatch({ do: "filter", filters: { metric: { column, letter } } });
  };
  const cell = (amount: number, column: number, letter: string, what: string): JSX.Element => (
    <td class="n">
      {amount === 0 ? "0" : (
        <button type="button" class="plain" aria-label={`Show ${plural(amount, "case")} ${what}`} onClick={() => show(column, letter)}>
          {count(amount)}
        </button>
      )}
    </td>
  );
  return (
    <section>
      <h3>Metrics</h3>
      <div class="scrolls" tabIndex={0} role="group" aria-label="Metrics">
        <table>
          <thead>
            <tr><th>Metric</th><td /><th class="n">Mean</th><th class="n">Threshold</th><th class="n">Passed</th><th class="n">Failed</th><th class="n">Errors</th></tr>
          </thead>
          <tbody>
            {page.metrics.map((metric, column) => (
              <tr>
                <td>{visible(metric.name)}</td>
                <td>
                  <ScoreBar score={metric.mean} threshold={metric.threshold} low={metric.min} high={metric.max}
                    outcome={standing(metric)} />
                </td>
                <td class="n">{number(metric.mean)}</td>
                <td class="n">{metric.threshold === null ? "–" : `${minimized(metric) ? "≤" : "≥"} ${number(metric.threshold)}`}</td>
                {cell(metric.passed, column, "p", `that pass ${metric.name}`)}
                {cell(metric.failed, column, "f", `that fail ${metric.name}`)}
                {cell(metric.errors, column, "e", `with an error of ${metric.name}`)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** How the mean stands to the threshold, as an outcome. */
function standing(metric: Metric): string {
  if (metric.mean === null || metric.threshold === null) return "informational";
  return (minimized(metric) ? metric.mean <= metric.threshold : metric.mean >= metric.threshold) ? "passed" : "failed";
}

function RunFacts(): JSX.Element {
  const { run } = useShared().page.head;
  const commit = webLink(run.commit_url);
  const link = webLink(run.run_url);
  const facts: [string, ComponentChildren][] = [];
  if (run.started !== null) facts.push(["Started", moment(run.started)]);
  if (run.duration_ms !== null) facts.push(["Duration", duration(run.duration_ms)]);
  if (run.model_calls !== null) facts.push(["Model calls", count(run.model_calls)]);
  if (run.prompt_tokens !== null) facts.push(["Tokens", `${count(run.prompt_tokens)} + ${count(run.completion_tokens)}`]);
  if (run.cost !== null) facts.push(["Cost", visible(run.cost)]);
  if (run.commit !== null) {
    const short = run.commit.slice(0, 12);
    facts.push(["Commit", commit ? <a href={commit} target="_blank" rel="noopener noreferrer">{short}</a> : <code>{visible(short)}</code>]);
  }
  if (link) facts.push(["Workflow", <a href={link} target="_blank" rel="noopener noreferrer">run</a>]);
  facts.push(["holodeck-action", visible(run.tool_version)]);
  return (
    <section>
      <h3>Run</h3>
      <dl class="facts">{facts.map(([name, value]) => <div><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
    </section>
  );
}
