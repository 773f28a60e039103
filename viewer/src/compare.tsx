/** What changed against the base; the cases stand in the list beside it, changes first. */

import type { JSX } from "preact";
import type { Base, Change } from "./data";
import { CHANGES, count, moment, number, visible } from "./format";
import { ChangeTag } from "./case";
import { useShared } from "./state";

const MEANING: Record<Change, string> = {
  regressed: "worse than before",
  flaky: "failed now, but not in most trials",
  undecided: "fails now; the trials that both sides have do not show whether it got worse",
  improved: "better than before",
  new: "only in this run",
  gone: "only in the base",
  changed: "asked or graded differently",
  same: "as before",
};

export function Comparison(props: { base: Base }): JSX.Element {
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
      {base.measures.length > 0 && (
        <div class="scrolls" tabIndex={0} role="group" aria-label="Measures of both runs">
          <table>
            <thead><tr><th>Measure</th><th class="n">Base</th><th class="n">This run</th><th class="n">Difference, 95 %</th><th>Change</th></tr></thead>
            <tbody>
              {base.measures.map((measure) => (
                <tr>
                  <td>{visible(measure.name)}</td>
                  <td class="n">{number(measure.base)}</td>
                  <td class="n">{number(measure.head)}</td>
                  <td class="n">{measure.low === null ? "–" : `${number(measure.low)} to ${number(measure.high)}`}</td>
                  <td>{visible(measure.change)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}
