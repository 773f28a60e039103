/** Drawings of numbers: how often which value is there, and how one changed from run to run. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { plural } from "./format";

const WIDTH = 420;
const HEIGHT = 110;
const BINS = 20;

interface Bin { low: number; high: number; last: boolean; tones: Map<string, number>; total: number }

/** Between the ends, as equal parts; what lies beyond the upper end counts in the last one. */
export function bins(values: readonly (number | null)[], tones: (row: number) => string, low: number, high: number): Bin[] {
  const width = (high - low || 1) / BINS;
  const made = Array.from({ length: BINS }, (_, at): Bin => ({
    low: low + at * width, high: low + (at + 1) * width, last: at === BINS - 1, tones: new Map(), total: 0,
  }));
  const top = values.reduce<number>((most, value) => Math.max(most, value ?? most), high);
  made[BINS - 1]!.high = top;
  values.forEach((value, row) => {
    if (value === null || value < low) return;
    let at = Math.min(BINS - 1, Math.floor((value - low) / width));
    // Division may round across a border that the filter compares exactly.
    if (value < made[at]!.low) at--;
    else if (at < BINS - 1 && value >= made[at]!.high) at++;
    const bin = made[at]!;
    bin.total++;
    bin.tones.set(tones(row), (bin.tones.get(tones(row)) ?? 0) + 1);
  });
  return made;
}

export interface Line { at: number; name: string; class: string }

export function Histogram(props: {
  label: string;
  values: readonly (number | null)[];
  tones: (row: number) => string;
  low: number;
  high: number;
  lines: Line[];
  format: (value: number) => string;
  onPick: (low: number, high: number, last: boolean) => void;
}): JSX.Element {
  const { low, high, format } = props;
  const made = useMemo(() => bins(props.values, props.tones, low, high), [props.values, props.tones, low, high]);
  const most = Math.max(1, ...made.map((bin) => bin.total));
  const step = WIDTH / BINS;
  const x = (value: number): number => Math.max(0, Math.min(WIDTH, ((value - low) / (high - low || 1)) * WIDTH));
  const top = made[BINS - 1]!.high;
  return (
    <figure class="histogram">
      <svg viewBox={`0 -4 ${WIDTH} ${HEIGHT + 22}`} role="group" aria-label={props.label}>
        <line class="axis" x1="0" x2={WIDTH} y1={HEIGHT} y2={HEIGHT} />
        {made.map((bin, at) => {
          if (!bin.total) return null;
          let bottom = HEIGHT;
          const said = `${plural(bin.total, "case")} from ${format(bin.low)} to ${format(bin.high)}`;
          const pick = (): void => props.onPick(bin.low, bin.high, bin.last);
          return (
            <g
              class="column"
              role="button"
              tabindex={0}
              aria-label={said}
              onClick={pick}
              onKeyDown={(event) => {
                if (event.key !== "Enter" && event.key !== " ") return;
                event.preventDefault();
                pick();
              }}
            >
              <title>{said}</title>
              <rect class="hit" x={at * step} y="0" width={step} height={HEIGHT} />
              {[...bin.tones].sort().map(([name, amount]) => {
                const height = Math.max(1.5, (amount / most) * (HEIGHT - 8));
                bottom -= height;
                return <rect class={name} x={at * step + 1} y={bottom} width={step - 2} height={height} rx="1" />;
              })}
            </g>
          );
        })}
        {props.lines.map((line) => (
          <g class={`line ${line.class}`} aria-hidden="true">
            <line x1={x(line.at)} x2={x(line.at)} y1="-4" y2={HEIGHT} />
            <text x={x(line.at) + (x(line.at) > WIDTH * 0.7 ? -4 : 4)} y="5" text-anchor={x(line.at) > WIDTH * 0.7 ? "end" : "start"}>{line.name}</text>
          </g>
        ))}
        <text class="scale" x="0" y={HEIGHT + 14} aria-hidden="true">{format(low)}</text>
        <text class="scale" x={WIDTH} y={HEIGHT + 14} text-anchor="end" aria-hidden="true">{top > high ? `${format(high)} and more` : format(high)}</text>
      </svg>
    </figure>
  );
}

/** Values of runs, oldest first; unknown ones leave a gap. */
export function Trend(props: {
  name: string; values: (number | null)[]; names: string[]; format: (value: number) => string; floor: number | null;
  threshold: number | null;
}): JSX.Element {
  const known = props.values.filter((value): value is number => value !== null);
  const low = Math.min(props.floor ?? Infinity, props.threshold ?? Infinity, ...known);
  const high = Math.max(props.threshold ?? -Infinity, ...known);
  const room = (high - low) * 0.08 || Math.abs(high) * 0.08 || 1;
  const y = (value: number): number => HEIGHT - 6 - ((value - low) / (high - low + room)) * (HEIGHT - 16);
  const x = (at: number): number => (props.values.length === 1 ? WIDTH / 2 : 6 + (at / (props.values.length - 1)) * (WIDTH - 12));
  const parts: string[] = [];
  let pen = "M";
  props.values.forEach((value, at) => {
    if (value === null) pen = "M";
    else {
      parts.push(`${pen}${x(at).toFixed(1)} ${y(value).toFixed(1)}`);
      pen = "L";
    }
  });
  const last = known[known.length - 1]!;
  const before = known[known.length - 2];
  return (
    <figure class="trend">
      <figcaption>
        <b>{props.name}</b> <span class="latest">{props.format(last)}</span>
        {before !== undefined && before !== last && <span class="soft"> before: {props.format(before)}</span>}
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img"
        aria-label={`${props.name}: ${plural(known.length, "run")}, from ${props.format(known[0]!)} to ${props.format(last)}`}>
        <line class="axis" x1="0" x2={WIDTH} y1={HEIGHT - 2} y2={HEIGHT - 2} />
        {props.threshold !== null && (
          <g class="line" aria-hidden="true">
            <line x1="0" x2={WIDTH} y1={y(props.threshold)} y2={y(props.threshold)} />
            <text x={WIDTH} y={y(props.threshold) - 3} text-anchor="end">threshold {props.format(props.threshold)}</text>
          </g>
        )}
        <path class="curve" d={parts.join("")} />
        {props.values.map((value, at) => value !== null && (
          <circle cx={x(at)} cy={y(value)} r={props.values.length > 60 ? 1.5 : 3}>
            <title>{`${props.names[at]}: ${props.format(value)}`}</title>
          </circle>
        ))}
      </svg>
    </figure>
  );
}
