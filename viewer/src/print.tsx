/** What goes on paper: the summary, and each case with a problem in full. */

import type { JSX } from "preact";
import type { Detail } from "./data";
import { TrialView } from "./case";
import { plural, visible } from "./format";
import { Badge } from "./icons";
import { Summary } from "./summary";
import { useShared } from "./state";

export function PrintPage(props: { details: ReadonlyMap<number, Detail>; problems: number }): JSX.Element {
  const { page } = useShared();
  const { index } = page;
  const left = props.problems - props.details.size;
  return (
    <div class="paper">
      <Summary />
      {[...props.details].sort(([one], [other]) => one - other).map(([row, detail]) => (
        <section class="case">
          <header>
            <Badge outcome={index.outcome[row]!} /> <span class="soft">{visible(index.place[row]!)}</span>
            <h2>{visible(index.title[row]!)}</h2>
            {![...(detail.trials[0]?.turns ?? []), detail.trials[0]?.conversation].some((part) => part?.problems.length) && <p>{visible(index.reason[row]!)}</p>}
          </header>
          {detail.trials.slice(0, 1).map((trial) => (
            <TrialView trial={trial} beside={null} mode="sides" labelling={null}
              metrics={page.metrics.filter((metric) => metric.suite === index.suite[row])} />
          ))}
          {detail.trials.length > 1 && <p class="soft">The first of {plural(detail.trials.length, "trial")}.</p>}
        </section>
      ))}
      {left > 0 && <p class="note">{plural(left, "more case")} with a problem {left === 1 ? "is" : "are"} not printed.</p>}
    </div>
  );
}
