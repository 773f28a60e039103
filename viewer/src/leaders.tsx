/** Several runs, such as the variants of a race: who leads, over the cases that each run decided. */

import type { JSX } from "preact";
import type { Outcome } from "./data";
import { percent, plural, visible } from "./format";
import { useShared } from "./state";

const WIDTH = 420;
/** Of a 95 % interval. */
const Z = 1.96;

interface Run { at: number; name: string; asked: number; share: number }

/** Wilson's interval of a share. */
function interval({ asked, share }: Run): [number, number] {
  const all = asked + Z * Z;
  const middle = (share * asked + Z * Z / 2) / all;
  const half = Z * Math.sqrt(share * (1 - share) * asked + Z * Z / 4) / all;
  return [middle - half, middle + half];
}

/** The two-sided sign test: how probable a split as uneven as this is if neither run is better. */
function signTest(one: number, other: number): number {
  const all = one + other;
  let log = -all * Math.LN2;
  let tail = 0;
  for (let at = 0; at <= Math.min(one, other); at++) {
    tail += Math.exp(log);
    log += Math.log((all - at) / (at + 1));
  }
  return Math.min(1, 2 * tail);
}

const isDecided = (outcome: Outcome | null | undefined): boolean => outcome === "passed" || outcome === "failed";

export function Leaders(): JSX.Element {
  const { head, index } = useShared().page;
  const outcomes = (at: number): (Outcome | null)[] => index.runs.map((row) => row[at]!);
  const runs = head.runs.map(({ name }, at): Run => {
    const asked = outcomes(at).filter(isDecided).length;
    return { at, name: visible(name), asked, share: outcomes(at).filter((one) => one === "passed").length / asked };
  }).filter(({ asked }) => asked).sort((one, other) => other.share - one.share);
  // A run that was dropped early has answered too few cases to lead.
  const most = Math.max(...runs.map(({ asked }) => asked));
  const leader = runs.find(({ asked }) => asked === most);
  if (!leader) return <p class="none">No case was decided.</p>;
  const against = new Map(runs.filter((run) => run !== leader).map((run) => {
    const pairs = index.runs.filter((row) => isDecided(row[run.at]) && isDecided(row[leader.at]));
    const unlike = pairs.filter((row) => row[run.at] !== row[leader.at]);
    const better = unlike.filter((row) => row[run.at] === "passed").length;
    const worse = unlike.length - better;
    return [run, { better, worse, pairs: pairs.length, certain: worse > better && signTest(better, worse) < 0.05 / (runs.length - 1) }];
  }));
  const rivals = [...against].flatMap(([run, { certain }]) => (certain ? [] : [run.name]));
  return (
    <div class="overview">
      <header class="verdict">
        <h2>{plural(runs.length, "run")} compared</h2>
        <p dir="auto">{rivals.length ? `${leader.name} passes most cases; beyond chance it is not better than ${rivals.join(", ")}.` : `${leader.name} leads, beyond chance.`}</p>
      </header>
      <div class="cards">
        {runs.map((run) => {
          const beside = against.get(run);
          const [low, high] = interval(run);
          const said = `${percent(run.share)} of ${plural(run.asked, "case")} passed, 95 %: ${percent(low)} to ${percent(high)}`;
          return (
            <section class="card">
              <h3>{run.name}</h3>
              <figure class="interval">
                <svg viewBox={`0 0 ${WIDTH} 28`} role="img" aria-label={said}>
                  <line class="axis" x1="0" x2={WIDTH} y1="14" y2="14" />
                  <rect class={run === leader ? "good" : "plain"} x={low * WIDTH} y="9" width={Math.max(2, (high - low) * WIDTH)} height="10" rx="3" />
                  <circle class="now" cx={run.share * WIDTH} cy="14" r="5" />
                </svg>
                <figcaption class="soft">{said}</figcaption>
              </figure>
              {beside && (
                <p>
                  Of {plural(beside.pairs, "case")} that {leader.name} decided too, {beside.better} better and {beside.worse} worse
                  {beside.certain ? ": worse beyond chance" : ""}
                </p>
              )}
            </section>
          );
        })}
      </div>
    </div>
  );
}
