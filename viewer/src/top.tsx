/** The bar above everything: verdict, views, tools. */

import type { JSX } from "preact";
import { count, percent, visible } from "./format";
import { Badge, IconButton } from "./icons";
import type { Progress } from "./live";
import { opened, openFile, save, sheet } from "./labels";
import type { View } from "./place";
import type { State, Theme } from "./state";
import { useShared } from "./state";

const NEXT: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };

export function viewsOf(head: { base: unknown; runs: unknown[]; history: unknown[] }): [View, string][] {
  const views: [View, string][] = [["cases", "Cases"], ["summary", "Summary"], ["metrics", "Metrics"]];
  if (head.base || head.runs.length) views.push(["compare", "Compare"]);
  if (head.history.length > 1) views.push(["trend", "Trend"]);
  if (head.base) views.push(["pairs", "Pairs"]);
  return views;
}

export function TopBar(props: { state: State; progress: Progress | null }): JSX.Element {
  const { page, dispatch, say } = useShared();
  const { head, index } = page;
  const { state, progress } = props;
  const { labels, pairs } = state;
  const marks = labels.size + pairs.size;
  return (
    <header class="top">
      <div class="line">
        <Badge outcome={head.outcome} />
        <h1 dir="auto" title={visible(head.sentence)}>{visible(head.title)}</h1>
        <nav aria-label="Views">
          {viewsOf(head).map(([view, name]) => (
            <button type="button" class={view} aria-current={state.view === view ? "page" : undefined} onClick={() => dispatch({ do: "view", view })}>
              {name}
            </button>
          ))}
        </nav>
        <span class="grow" />
        <IconButton name="label" label="Label answers (l)" text={state.labelling ? "Labelling" : undefined} pressed={state.labelling}
          onClick={() => dispatch({ do: "set", change: { labelling: !state.labelling } })} />
        {(state.labelling || state.view === "pairs") && (
          <>
            <input class="annotator" value={state.annotator} placeholder="Your name" aria-label="Your name, as annotator of the labels"
              onInput={(event) => dispatch({ do: "set", change: { annotator: event.currentTarget.value } })} />
            <IconButton name="open" label="Open a saved labels.csv" onClick={() => openFile((text) => {
              const found = opened(labels, pairs, text, head, index);
              dispatch({ do: "set", change: { labels: found.labels, pairs: found.pairs } });
              say(found.sentence);
            })} />
          </>
        )}
        {marks > 0 && (
          <IconButton name="save" label="Save labels.csv for holodeck-action calibrate" text={`labels.csv (${count(marks)})`}
            class="save" onClick={() => { save("labels.csv", sheet(labels, pairs, state.annotator, head, index)); say("labels.csv saved"); }} />
        )}
        <IconButton name={state.theme} label={`Colours: ${state.theme}`} onClick={() => dispatch({ do: "set", change: { theme: NEXT[state.theme] } })} />
        <IconButton name="print" label="Print" class="wide-only" onClick={() => window.print()} />
        <IconButton name="help" label="Keyboard (?)" class="wide-only" onClick={() => dispatch({ do: "set", change: { help: true } })} />
      </div>
      {progress?.running && (
        <div class="progress" role="status">
          <progress max={Math.max(1, progress.planned)} value={progress.done} aria-label="Cases done" />
          Running: {count(progress.done)} of {count(progress.planned)} cases ({percent(progress.planned ? progress.done / progress.planned : 0)})
        </div>
      )}
    </header>
  );
}
