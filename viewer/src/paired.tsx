/** Drawings of two runs: an interval beside zero, and the scores of each case before and now. */

import type { JSX } from "preact";
import type { Metric } from "./columns";
import { minimized } from "./columns";
import type { Detail, Measure } from "./data";
import { number, plural, visible } from "./format";
import { useShared } from "./state";

const WIDTH = 420;
const HEIGHT = 170;
const LEFT = 58;
const RIGHT = WIDTH - 58;
/** More lines are a surface, not a drawing. */
const MOST_LINES = 400;
/** Scores of a judge differ in their last digits. */
const EQUAL = 1e-9;

/** The means of the base's scores in a case, by metric; null if the base has no such case. */
export function baseMeans(detail: Detail): ReadonlyMap<string, number> | null {
  if (detail.base === null) return null;
  const scores = new Map<string, number[]>();
  for (const trial of detail.base) {
    const evaluations = [...trial.turns.flatMap((turn) => turn.evaluations), ...(trial.conversation?.evaluations ?? [])];
    for (const { name, score } of evaluations) {
      if (score !== null) scores.set(name, [...(scores.get(name) ?? []), score]);
    }
  }
  return new Map([...scores].map(([name, all]) => [name, all.reduce((sum, one) => sum + one, 0) / all.length]));
}

/** Two decimal places: a difference that they do not show is none that a reader acts on. */
export const short = (value: number | null): string => (value === null ? "–" : number(Number(value.toFixed(2))));
const signed = (value: number): string => (value > 0 ? `+${short(value)}` : short(value));

/** The difference and its 95 % interval beside zero. */
export function IntervalBar(props: { measure: Measure; worse: "left" | "right" }): JSX.Element {
  const { measure, worse } = props;
  const { low, high, base, head } = measure;
  if (low === null || high === null || base === null || head === null) return <p class="none">No interval.</p>;
  const difference = head - base;
  const most = Math.max(Math.abs(low), Math.abs(high), Math.abs(difference)) * 1.1 || 1;
  const x = (value: number): number => WIDTH / 2 + (value / most) * (WIDTH / 2 - 4);
  const side = high < 0 ? "left" : low > 0 ? "right" : null;
  const tone = side === null ? "plain" : side === worse ? "bad" : "good";
  const said = `${signed(difference)}, 95 %: ${signed(low)} to ${signed(high)}`;
  return (
    <figure class="interval">
      <svg viewBox={`0 0 ${WIDTH} 40`} role="img" aria-label={said}>
        <line class="axis" x1="0" x2={WIDTH} y1="14" y2="14" />
        <rect class={tone} x={x(low)} y="9" width={Math.max(2, x(high) - x(low))} height="10" rx="3" />
        <circle class="now" cx={x(difference)} cy="14" r="5" />
        <line class="zero" x1={WIDTH / 2} x2={WIDTH / 2} y1="2" y2="26" />
        <text x={WIDTH / 2} y="37" text-anchor="middle" aria-hidden="true">no change</text>
        <text x="0" y="37" aria-hidden="true">{worse === "left" ? "worse" : "better"}</text>
        <text x={WIDTH} y="37" text-anchor="end" aria-hidden="true">{worse === "left" ? "better" : "worse"}</text>
      </svg>
      <figcaption class="soft">{said}</figcaption>
    </figure>
  );
}

interface Line { row: number; before: number; now: number; tone: string }

/** A line a case from its score before to that now; a click opens the case. */
export function PairedPlot(props: {
  metric: Metric; column: number; before: readonly (ReadonlyMap<string, number> | null | undefined)[];
}): JSX.Element | null {
  const { page, dispatch } = useShared();
  const { metric, column } = props;
  const lines: Line[] = [];
  page.index.scores[column]!.forEach((now, row) => {
    const before = page.index.suite[row] === metric.suite ? props.before[row]?.get(metric.name) : undefined;
    if (now === null || before === undefined) return;
    const gain = (now - before) * (minimized(metric) ? -1 : 1);
    lines.push({ row, before, now, tone: Math.abs(gain) < EQUAL ? "calm" : gain > 0 ? "good" : "bad" });
  });
  if (!lines.length) return null;
  const changed = lines.filter((line) => line.tone !== "calm").sort((one, other) => Math.abs(other.now - other.before) - Math.abs(one.now - one.before));
  const equal = lines.filter((line) => line.tone === "calm");
  const drawn = [...changed, ...equal].slice(0, MOST_LINES);
  const low = Math.min(metric.min, ...drawn.map((line) => line.before));
  const high = Math.max(metric.max, ...drawn.map((line) => line.before));
  const y = (value: number): number => HEIGHT - 8 - ((value - low) / (high - low || 1)) * (HEIGHT - 24);
  const worse = changed.filter((line) => line.tone === "bad").length;
  const said = `${metric.name}: ${plural(changed.length - worse, "case")} better than before, ${worse} worse, ${equal.length} equal`;
  return (
    <figure class="paired">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT + 12}`} role="group" aria-label={said}>
        {[LEFT, RIGHT].map((at) => <line class="axis" x1={at} x2={at} y1="8" y2={HEIGHT - 4} />)}
        {metric.threshold !== null && (
          <g class="line" aria-hidden="true">
            <line x1={LEFT} x2={RIGHT} y1={y(metric.threshold)} y2={y(metric.threshold)} />
            <text x={RIGHT + 5} y={y(metric.threshold) + 4}>needs {short(metric.threshold)}</text>
          </g>
        )}
        {[...drawn].reverse().map((line) => <CaseLine line={line} y={y} onOpen={() => dispatch({ do: "open", row: line.row })} />)}
        <text x={LEFT} y={HEIGHT + 10} text-anchor="middle" aria-hidden="true">before</text>
        <text x={RIGHT} y={HEIGHT + 10} text-anchor="middle" aria-hidden="true">now</text>
        <text x={LEFT - 6} y={y(high) + 4} text-anchor="end" aria-hidden="true">{short(high)}</text>
        <text x={LEFT - 6} y={y(low) + 4} text-anchor="end" aria-hidden="true">{short(low)}</text>
      </svg>
      <figcaption class="soft">
        {changed.length ? `${plural(changed.length, "case")} changed (${worse} worse), ${equal.length} did not` : "no case changed"}
        {drawn.length < lines.length ? `; ${MOST_LINES} are drawn` : ""}
      </figcaption>
    </figure>
  );
}

function CaseLine(props: { line: Line; y: (value: number) => number; onOpen: () => void }): JSX.Element {
  const { page } = useShared();
  const { line, y, onOpen } = props;
  const said = `${visible(page.index.title[line.row]!)}: ${short(line.before)} → ${short(line.now)}`;
  const ends = { x1: LEFT, x2: RIGHT, y1: y(line.before), y2: y(line.now) };
  return (
    <g
      class={`case ${line.tone}`}
      role="button"
      tabindex={line.tone === "calm" ? -1 : 0}
      aria-label={said}
      onClick={onOpen}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        onOpen();
      }}
    >
      <title>{said}</title>
      <line class="hit" {...ends} />
      <line class="drawn" {...ends} />
      <circle cx={RIGHT} cy={ends.y2} r="2.5" />
    </g>
  );
}
