/** How an answer was graded. */

import type { JSX } from "preact";
import type { Metric } from "./columns";
import { minimized } from "./columns";
import type { Evaluation } from "./data";
import { duration, number, outcomeWord, tone, usd, visible } from "./format";
import { Mark } from "./icons";
import type { Labels } from "./labels";
import { keyOf } from "./labels";
import { LabelButtons, Note } from "./marking";
import type { Vote } from "./record";
import { votesOf } from "./record";
import { Fold, Text } from "./text";

/** A score between the ends of its metric, and where it starts to pass. */
export function ScoreBar(props: { score: number | null; threshold: number | null; low: number; high: number; outcome: string }): JSX.Element {
  const at = (value: number): number => {
    const share = props.high > props.low ? (value - props.low) / (props.high - props.low) : 0;
    return Math.max(0, Math.min(1, share)) * 64;
  };
  return (
    <svg class={`bar ${tone(props.outcome)}`} viewBox="0 0 64 10" width="64" height="10" aria-hidden="true">
      <rect class="track" x="0" y="2" width="64" height="6" rx="3" />
      {props.score !== null && <rect class="fill" x="0" y="2" width={Math.max(2, at(props.score))} height="6" rx="3" />}
      {props.threshold !== null && <rect class="tick" x={Math.min(62.5, at(props.threshold))} y="0" width="1.5" height="10" />}
    </svg>
  );
}

/** An answer's place; null when it is not to be labelled. */
export interface Labelling { place: { suite: string; case: string; turn: number; trial: number }; labels: Labels }

/** `said` are the problems above the answer, whose reasons are not repeated here. */
export function Evaluations(props: {
  evaluations: Evaluation[]; metrics: Metric[]; said: readonly string[]; labelling: Labelling | null;
}): JSX.Element {
  return (
    <ul class="evaluations">
      {props.evaluations.map((evaluation) => {
        const metric = props.metrics.find((one) => one.name === evaluation.name);
        return (
          <li>
            <One evaluation={evaluation} metric={metric} said={props.said} />
            {props.labelling && (
              <LabelButtons place={{ ...props.labelling.place, metric: evaluation.name }} labels={props.labelling.labels} />
            )}
            {props.labelling?.labels.has(keyOf({ ...props.labelling.place, metric: evaluation.name })) && (
              <Note place={{ ...props.labelling.place, metric: evaluation.name }} labels={props.labelling.labels} />
            )}
          </li>
        );
      })}
    </ul>
  );
}

function One(props: { evaluation: Evaluation; metric: Metric | undefined; said: readonly string[] }): JSX.Element {
  const { evaluation, metric } = props;
  const isSaid = (text: string): boolean => text !== "" && props.said.some((problem) => problem.includes(text));
  const reason = isSaid(evaluation.reason) ? "" : evaluation.reason;
  const explanation = evaluation.explanation === null || isSaid(evaluation.explanation) || evaluation.explanation === reason
    ? null : evaluation.explanation;
  const bad = tone(evaluation.outcome) === "bad" || tone(evaluation.outcome) === "warn";
  const votes = votesOf(evaluation);
  const sign = minimized(metric) ? "≤" : "≥";
  return (
    <details open={bad}>
      <summary>
        <Mark outcome={evaluation.outcome} label />
        <span class="name">{visible(evaluation.name)}</span>
        <ScoreBar score={evaluation.score} threshold={evaluation.threshold} outcome={evaluation.outcome}
          low={metric?.min ?? 0} high={metric?.max ?? 1} />
        <span class="score">
          {evaluation.score !== null ? number(evaluation.score) : visible(evaluation.category ?? "–")}
          {evaluation.threshold !== null && <span class="soft">, needs {sign} {number(evaluation.threshold)}</span>}
        </span>
        <span class="why">{visible((reason || explanation || "").slice(0, 300))}</span>
      </summary>
      <div class="inside">
        {reason && <p dir="auto">{visible(reason)}</p>}
        {explanation !== null && (
          <Text text={explanation} label={`Explanation of ${evaluation.name}`} class="prose" />
        )}
        {votes.length > 0 && <Votes votes={votes} />}
        {evaluation.details !== null && (
          <Fold name="Details" why={evaluation.details}>
            <Text text={evaluation.details} label={`Details of ${evaluation.name}`} />
          </Fold>
        )}
        <p class="soft">
          {[
            typeof evaluation.judge === "string" && `judged by ${visible(evaluation.judge)}`,
            evaluation.category !== null && evaluation.score !== null && `value ${visible(evaluation.category)}`,
            evaluation.duration_ms !== null && duration(evaluation.duration_ms),
            evaluation.cost_usd !== null && usd(evaluation.cost_usd),
          ].filter(Boolean).join(" · ")}
        </p>
      </div>
    </details>
  );
}

function Votes(props: { votes: Vote[] }): JSX.Element {
  return (
    <div class="scrolls" tabIndex={0} role="group" aria-label="Votes of the panel">
      <table>
        <thead><tr><th>Judge</th><th>Vote</th><th class="n">Score</th><th>Explanation</th></tr></thead>
        <tbody>
          {props.votes.map((vote) => (
            <tr>
              <td>{visible(vote.judge)}</td>
              <td><Mark outcome={vote.outcome} /> {outcomeWord(vote.outcome)}</td>
              <td class="n">{number(vote.score)}</td>
              <td dir="auto">{visible(vote.explanation ?? "")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The scores of two answers to the same question. */
export function ComparedEvaluations(props: { base: Evaluation[]; baseName: string; head: Evaluation[] }): JSX.Element {
  const names = [...new Set([...props.head, ...props.base].map((evaluation) => evaluation.name))];
  const of = (list: Evaluation[], name: string): Evaluation | undefined => list.find((one) => one.name === name);
  const shown = (one: Evaluation | undefined): JSX.Element => (
    <td class="n">{one ? <><Mark outcome={one.outcome} label /> {one.score !== null ? number(one.score) : visible(one.category ?? "–")}</> : "–"}</td>
  );
  return (
    <div class="scrolls" tabIndex={0} role="group" aria-label="Scores of both answers">
      <table>
        <thead><tr><th>Metric</th><th class="n">{props.baseName}</th><th class="n">This run</th><th class="n">Change</th><th>Why</th></tr></thead>
        <tbody>
          {names.map((name) => {
            const base = of(props.base, name);
            const head = of(props.head, name);
            const by = base?.score != null && head?.score != null ? head.score - base.score : null;
            return (
              <tr>
                <td>{visible(name)}</td>
                {shown(base)}
                {shown(head)}
                <td class="n">{by === null ? "–" : `${by > 0 ? "+" : by < 0 ? "−" : "±"}${number(Math.abs(by))}`}</td>
                <td dir="auto">{visible(head?.reason ?? base?.reason ?? "")}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
