/** One case in full. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { asCase } from "./ascase";
import type { Metric } from "./columns";
import type { Detail, Trial } from "./data";
import { count, duration, plural, usd, visible, webLink } from "./format";
import { Badge, IconButton, Mark } from "./icons";
import type { Labels } from "./labels";
import { writePlace } from "./place";
import type { Mode } from "./state";
import { useShared } from "./state";
import { Switch } from "./text";
import { TurnView } from "./turn";
import { ConversationView } from "./conversation";

interface Properties {
  row: number;
  trial: number;
  mode: Mode;
  beside: number;
  /** Null when the reader does not label. */
  labels: Labels | null;
  onStep: (by: number) => void;
  onClose: () => void;
}

/** The details of a case: undefined while they are unpacked, null when the page leaves them out. */
function useDetail(row: number): Detail | null | undefined | Error {
  const { page } = useShared();
  const [found, setFound] = useState<{ of: unknown; row: number; detail: Detail | null | Error }>();
  useEffect(() => {
    let current = true;
    page.detail(row).then(
      (detail) => current && setFound({ of: page, row, detail }),
      (error: unknown) => current && setFound({ of: page, row, detail: new Error(String(error)) }),
    );
    return () => { current = false; };
  }, [page, row]);
  return found && found.row === row && found.of === page ? found.detail : undefined;
}

export function CaseView(props: Properties): JSX.Element {
  const { page, say } = useShared();
  const { row } = props;
  const { index } = page;
  const detail = useDetail(row);
  const copy = (what: string, text: string): void => {
    copyText(text).then((copied) => say(copied ? `${what} copied` : `${what} cannot be copied here: ${text}`));
  };
  const suite = repeated(page.index.id, index.id[row]!) ? index.suite[row]! : null;
  const link = webLink(index.url[row]!);
  const place = visible(index.place[row]!);
  return (
    <div class="case">
      <header>
        <div class="line">
          <IconButton name="back" label="Back to the list" class="narrow" onClick={props.onClose} />
          <Badge outcome={index.outcome[row]!} />
          {index.change[row] && index.change[row] !== "same" && <ChangeTag change={index.change[row]!} />}
          {index.flaky[row] && <span class="tag">flaky</span>}
          <span class="grow" />
          <IconButton name="up" label="Previous case (k)" onClick={() => props.onStep(-1)} />
          <IconButton name="down" label="Next case (j)" onClick={() => props.onStep(1)} />
          <IconButton name="link" label="Copy a link to this case" onClick={() =>
            copy("Link", location.href.replace(/#.*$/, "") + writePlace({ view: "cases", case: index.id[row]!, suite }))} />
          {index.command[row] && (
            <IconButton name="copy" label="Copy the command that runs this case alone (c)" text="Run it alone" class="command"
              onClick={() => copy("Command", index.command[row]!)} />
          )}
        </div>
        <h2 dir="auto">{visible(shortened(index.title[row]!))}</h2>
        <p class="soft facts-line">
          {link ? <a href={link} target="_blank" rel="noopener noreferrer">{place}</a> : <span>{place}</span>}
          {index.latency_ms[row] !== null && <span>{duration(index.latency_ms[row]!)}</span>}
          {index.tokens[row] !== null && <span>{count(index.tokens[row]!)} tokens</span>}
          {index.cost_usd[row] !== null && <span>{usd(index.cost_usd[row]!)}</span>}
          {index.trials[row]! > 1 && <span>{index.passed_trials[row]} of {plural(index.trials[row]!, "trial")} passed</span>}
          {index.tags[row]!.map((tag) => <span class="tag">{visible(tag)}</span>)}
        </p>
      </header>
      {detail === undefined && <p class="none" role="status">Unpacking …</p>}
      {detail instanceof Error && <p class="problems">The details cannot be read: {detail.message}</p>}
      {detail === null && <Omitted />}
      {detail && !(detail instanceof Error) && <Trials {...props} detail={detail} copy={copy} />}
    </div>
  );
}

function Trials(props: Properties & { detail: Detail; copy: (what: string, text: string) => void }): JSX.Element {
  const { page, dispatch } = useShared();
  const { detail, row } = props;
  const { head, index } = page;
  const trial = Math.min(props.trial, detail.trials.length - 1);
  const shown = detail.trials[trial];
  const runs = [detail.base, ...(detail.others ?? [])].map((trials, at) => {
    const found = trials?.find((one) => one.index === shown?.index) ?? trials?.[0];
    const name = at === 0 ? "Base" : visible(head.runs[at]?.name ?? "");
    return found ? { at: at + 1, name, trial: found } : null;
  }).filter((run) => run !== null);
  const elsewhere = runs.find((run) => run.at === props.beside) ?? runs[0];
  const beside = runs.find((run) => run.at === props.beside) ?? null;
  const suite = index.suite[row]!;
  const labelling = props.labels && { labels: props.labels, suite: head.suites[suite]?.name ?? "", case: index.id[row]!, trial: shown?.index ?? 0 };
  const made = shown ? asCase(index.title[row]!, shown) : null;
  // One answer says its problems itself.
  const said = detail.trials.length === 1 && shown?.turns.length === 1
    && shown.turns[0]!.problems.length + (shown.conversation?.problems.length ?? 0) > 0;
  return (
    <>
      {!said && index.reason[row] && index.outcome[row] !== "passed" && <p class="reason" dir="auto">{visible(index.reason[row]!)}</p>}
      {detail.task && (
        <p class="line">
          <IconButton name="copy" label="Copy as a task" text="Copy for a coding agent"
            onClick={() => props.copy("Task", detail.task!)} />
        </p>
      )}
      {detail.remarks.map((remark) => <p class="remark" dir="auto">{visible(remark)}</p>)}
      {(detail.trials.length > 1 || runs.length > 0) && (
        <div class="line choices">
          {detail.trials.length > 1 && (
            <Switch label="Trial" of={detail.trials.map((one, at) =>
              [<><Mark outcome={one.outcome} label /> Trial {one.index + 1}</>, at === trial, () => dispatch({ do: "trial", trial: at })])} />
          )}
          {runs.length > 0 && (
            <Switch label="Runs" of={[
              ["This run", !beside, () => dispatch({ do: "set", change: { beside: 0 } })],
              ...runs.map((run): [JSX.Element, boolean, () => void] =>
                [<><Mark outcome={run.trial.outcome} label /> Beside {run.at === 1 ? "the base" : run.name}</>, run === beside,
                  () => dispatch({ do: "set", change: { beside: run.at } })]),
            ]} />
          )}
        </div>
      )}
      {shown ? (
        <>
          <TrialView trial={shown} beside={beside} mode={props.mode} labelling={labelling}
            metrics={page.metrics.filter((metric) => metric.suite === suite)} />
          {made !== null && (
            <p class="line">
              <IconButton name="copy" label="Copy the conversation as a case of agent.yaml" text="Copy as a case"
                onClick={() => props.copy("Case", made)} />
            </p>
          )}
        </>
      ) : elsewhere ? (
        <>
          <p class="none">{runs.length === 1 && elsewhere.at === 1 ? "Only the base has this case." : `This run does not have the case. ${elsewhere.name}:`}</p>
          <TrialView trial={elsewhere.trial} beside={null} mode={props.mode} labelling={null} metrics={page.metrics} />
        </>
      ) : (
        <p class="none">The case was not run.</p>
      )}
    </>
  );
}

/** The same trial of the base or of another run. */
export interface Beside { name: string; trial: Trial }

/** The turns of a trial, beside those of another run where one is given. */
export function TrialView(props: {
  trial: Trial; beside: Beside | null; mode: Mode; metrics: Metric[];
  labelling: { labels: Labels; suite: string; case: string; trial: number } | null;
}): JSX.Element {
  const { trial, labelling } = props;
  return (
    <>
      {trial.error !== null && <p class="problems" dir="auto">{visible(trial.error.message)}</p>}
      {trial.user !== undefined && <p dir="auto">{visible(trial.user)}</p>}
      {trial.turns.map((turn, at) => (
        <TurnView
          turn={turn}
          base={props.beside?.trial.turns[at] ?? null}
          baseName={props.beside?.name ?? ""}
          number={at + 1}
          of={trial.turns.length}
          metrics={props.metrics}
          mode={props.mode}
          labelling={labelling && {
            labels: labelling.labels,
            place: { suite: labelling.suite, case: labelling.case, turn: at, trial: labelling.trial },
          }}
        />
      ))}
      {trial.conversation && (
        <ConversationView
          whole={trial.conversation}
          base={props.beside?.trial.conversation ?? null}
          baseName={props.beside?.name ?? ""}
          metrics={props.metrics}
          labelling={labelling && {
            labels: labelling.labels,
            place: { suite: labelling.suite, case: labelling.case, turn: trial.turns.length - 1, trial: labelling.trial },
          }}
        />
      )}
      {!trial.turns.length && trial.error === null && <p class="none">{visible(trial.reason)}</p>}
    </>
  );
}

export function ChangeTag(props: { change: string }): JSX.Element {
  return <span class={`tag change ${props.change}`}>{props.change}</span>;
}

function Omitted(): JSX.Element {
  const { page } = useShared();
  return (
    <p class="none">
      This page leaves out the details of this case{page.head.omitted ? `: ${visible(page.head.omitted.why)}` : "."}
      {page.head.omitted && <><br /><code>{visible(page.head.omitted.command)}</code></>}
    </p>
  );
}

const shortened = (title: string): string => (title.length > 1000 ? `${title.slice(0, 1000)}…` : title);

function repeated(ids: string[], id: string): boolean {
  return ids.indexOf(id) !== ids.lastIndexOf(id);
}

async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // A page from a file may have no clipboard.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }
}
