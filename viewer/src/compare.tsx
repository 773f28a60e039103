/** What changed against the base; the cases stand in the list beside it, changes first. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { minimized } from "./columns";
import { Compared } from "./compared";
import type { Base, Change, Detail, Measure } from "./data";
import { CHANGES, count, moment, visible } from "./format";
import { ChangeTag } from "./case";
import { IntervalBar, PairedPlot, short } from "./paired";
import type { Reading } from "./reading";
import { useShared } from "./state";

/** Answers that are shown below the measures; the list has the other cases. */
const MOST_ANSWERS = 12;
const MEANING: Record<Change, string> = {
  regressed: "worse than before",
  flaky: "failed now, but not in most trials",
  undecided: "fails now; too few trials to say whether it got worse",
  improved: "better than before",
  new: "only in this run",
  gone: "only in the base",
  changed: "asked or graded differently",
  same: "as before",
};

export function Comparison(props: { base: Base; reading: Reading }): JSX.Element {
  const { page, dispatch } = useShared();
  const { base } = props;
  const counts = new Map<string, number>();
  for (const change of page.index.change) if (change) counts.set(change, (counts.get(change) ?? 0) + 1);
  return (
    <div class="overview">
      <header class="verdict">
        <h2>Compared with {visible(base.name)}</h2>
        <p dir="auto">{visible(base.sentence)}</p>
        <p class="soft">{[base.sha?.slice(0, 12), base.when && moment(base.when)].filter(Boolean).map((text) => visible(text as string)).join(" · ")}</p>
      </header>
      <ul class="changes">
        {CHANGES.filter((change) => counts.has(change)).map((change) => (
          <li>
            <button type="button" class="plain" onClick={() => dispatch({ do: "filter", filters: { change } })}>
              <b>{count(counts.get(change)!)}</b> <ChangeTag change={change} />
            </button>
            <span class="soft">{MEANING[change]}</span>
          </li>
        ))}
      </ul>
      <div class="cards">{base.measures.map((measure) => <MeasureCard measure={measure} reading={props.reading} />)}</div>
      <ChangedAnswers />
    </div>
  );
}

function MeasureCard(props: { measure: Measure; reading: Reading }): JSX.Element {
  const { metrics, head } = useShared().page;
  const { measure, reading } = props;
  const column = metrics.findIndex((metric) =>
    measure.name === (head.suites.length > 1 ? `${head.suites[metric.suite]?.name}: ${metric.name}` : metric.name));
  const metric = metrics[column];
  return (
    <section class="card">
      <h3>{visible(measure.name)}</h3>
      <p>
        {short(measure.base)} → <b>{short(measure.head)}</b> <span class="soft">{visible(measure.change)}</span>
      </p>
      <IntervalBar measure={measure} worse={minimized(metric) ? "right" : "left"} />
      {metric && <PairedPlot metric={metric} column={column} before={reading.before} />}
    </section>
  );
}

/** The answers of the cases that got worse or better, and how they differ from the base's. */
function ChangedAnswers(): JSX.Element | null {
  const { page, dispatch } = useShared();
  const changes = page.index.change;
  const rows = CHANGES.slice(0, 4).flatMap((change) => changes.flatMap((one, row) => (one === change ? [row] : []))).slice(0, MOST_ANSWERS);
  const [details, setDetails] = useState<(Detail | null)[]>([]);
  useEffect(() => {
    let current = true;
    void Promise.all(rows.map((row) => page.detail(row))).then((found) => { if (current) setDetails(found); });
    return () => { current = false; };
  }, [page]);
  if (!rows.length) return null;
  return (
    <section class="answers">
      <h3>Answers that changed</h3>
      {rows.map((row, at) => {
        const last = details[at]?.trials.at(-1)?.turns.at(-1);
        const before = details[at]?.base?.at(-1)?.turns.at(-1);
        return (
          <article>
            <h4 class="line">
              <ChangeTag change={changes[row]!} />
              <button type="button" class="plain" onClick={() => dispatch({ do: "open", row })}>{visible(page.index.title[row]!)}</button>
            </h4>
            {last && before && <Compared left={before.response} right={last.response} leftName="Base" rightName="This run" mode="inline" />}
          </article>
        );
      })}
    </section>
  );
}
