/** One turn of a conversation: question, answer, and everything that is known about both. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Compared, ModeSwitch } from "./compared";
import type { Metric } from "./columns";
import type { Step, ToolCall, Turn, Workspace } from "./data";
import type { Labelling } from "./evaluations";
import { ComparedEvaluations, Evaluations } from "./evaluations";
import { count, duration, number, plural, usd, visible } from "./format";
import { Mark } from "./icons";
import { LabelButtons, Note } from "./marking";
import { chunksOf, factsOf, modelsOf, tokensOf } from "./record";
import type { Mode } from "./state";
import { Fold, Problems, Section, Switch, Text } from "./text";

interface Properties { turn: Turn; number: number; of: number; metrics: Metric[]; mode: Mode; labelling: Labelling | null }

/** `base` is the same turn of the run of the name `baseName`. */
export function TurnView(props: Properties & { base: Turn | null; baseName: string }): JSX.Element {
  const { turn, base } = props;
  const calls = turn.tool_invocations ?? [];
  const { workspace } = turn;
  const [inWorkspace, setInWorkspace] = useState(false);
  const chunks = chunksOf(turn);
  const context = turn.context ?? [];
  const called = (turn.tool_assertions.length > 0 || calls.length > 0 || turn.steps.length > 1) && (
    <Section title={turn.steps.some((step) => step.tool == null) ? "Calls of models and tools" : "Tool calls"}>
      <ExpectedTools turn={turn} />
      {base && callsText(base.tool_invocations ?? []) !== callsText(calls) ? (
        <Compared left={callsText(base.tool_invocations ?? [])} right={callsText(calls)} leftName={props.baseName} rightName="This run" mode={props.mode} code />
      ) : (
        <Steps turn={turn} calls={calls} />
      )}
    </Section>
  );
  return (
    <article class="turn" aria-label={`Turn ${props.number}`}>
      <header class={props.of > 1 ? "" : "unseen"}>
        <Mark outcome={turn.outcome} label /> <h3>Turn {props.number} of {props.of}</h3>
      </header>
      <Problems said={turn.problems} />
      {turn.error !== null && <p class="problems" dir="auto">{visible(turn.error.message)}</p>}
      {workspace && (
        <>
          <Switch label="Parts of the turn" of={[
            ["Answer", !inWorkspace, () => setInWorkspace(false)],
            [`Trajectory: ${plural(calls.length, "call")}, ${plural(workspace.files.length, "changed file")}`, inWorkspace, () => setInWorkspace(true)],
          ]} />
          <div hidden={!inWorkspace}>{called}<ChangedFiles {...workspace} /></div>
        </>
      )}
      <div hidden={workspace && inWorkspace}>
        <Section title={speaker(turn)}><Text text={turn.input} label={speaker(turn)} class="said" /></Section>
        {base ? <BesideBase {...props} base={base} /> : <Answer {...props} />}
        {props.labelling && (
          <div class="ask">
            <span>Is this answer right?</span>
            <LabelButtons place={{ ...props.labelling.place, metric: "" }} labels={props.labelling.labels} />
            <Note place={{ ...props.labelling.place, metric: "" }} labels={props.labelling.labels} />
          </div>
        )}
        {!workspace && called}
        {turn.evaluations.length > 0 && (
          <Section title="Evaluations">
            {base && <ComparedEvaluations base={base.evaluations} baseName={props.baseName} head={turn.evaluations} />}
            <Evaluations evaluations={turn.evaluations} metrics={props.metrics} said={turn.problems} labelling={props.labelling} />
          </Section>
        )}
        {chunks.length > 0 && (
          <Section title={`Retrieved chunks (${chunks.length})`}>
            {chunks.map((chunk, at) => (
              <Fold name={visible(chunk.id ?? `chunk ${at + 1}`)} why={chunk.text ?? ""} score={chunk.score === null ? "" : number(chunk.score)}>
                <Text text={chunk.text ?? ""} label={`Chunk ${at + 1}`} />
              </Fold>
            ))}
          </Section>
        )}
        {context.length > 0 && (
          <Section title={`Context (${context.length})`}>
            {context.map((text, at) => (
              <Fold name={`text ${at + 1}`} why={text}><Text text={text} label={`Context ${at + 1}`} /></Fold>
            ))}
          </Section>
        )}
        {factsOf(turn).map(([name, text]) => !isShort(text) && <Section title={visible(name)}><Text text={text} label={name} /></Section>)}
        <Usage turn={turn} />
      </div>
    </article>
  );
}

/** The title of the input. */
function speaker(turn: Turn): string {
  return turn.said_by === undefined ? "Input" : turn.said_by === "script" ? "User, from the script" : "User, played by a model";
}

function Answer(props: Properties): JSX.Element {
  const { turn } = props;
  if (turn.ground_truth === null) {
    return <Section title="Answer"><Text text={turn.response} none="There is no answer." label="Answer" class="said" /></Section>;
  }
  return (
    <Section title="Expected and answer" extra={<ModeSwitch mode={props.mode} />}>
      <Compared left={turn.ground_truth} right={turn.response} leftName="Expected" rightName="Answer" mode={props.mode} />
    </Section>
  );
}

function BesideBase(props: Properties & { base: Turn; baseName: string }): JSX.Element {
  const { turn, base, baseName } = props;
  const name = baseName === "Base" ? "base" : baseName;
  return (
    <>
      {base.input !== turn.input && (
        <Section title={`Input of ${name}`}><Text text={base.input} label={`Input of ${name}`} class="said" /></Section>
      )}
      <Section title={`Answer, ${name} and this run`} extra={<ModeSwitch mode={props.mode} />}>
        <Compared left={base.response} right={turn.response} leftName={baseName} rightName="This run" mode={props.mode} />
      </Section>
      {turn.ground_truth !== null && <Section title="Expected"><Text text={turn.ground_truth} label="Expected" class="said" /></Section>}
    </>
  );
}

function ExpectedTools(props: { turn: Turn }): JSX.Element | null {
  if (!props.turn.tool_assertions.length) return null;
  return (
    <ul class="expected">
      {props.turn.tool_assertions.map((tool) => (
        <li>
          <Mark outcome={tool.matched === null ? "skipped" : tool.matched ? "passed" : "failed"} label />
          <span>
            expected <code>{visible(tool.expected)}</code>
            {tool.reason && !props.turn.problems.includes(tool.reason) && <span class="soft" dir="auto"> {visible(tool.reason)}</span>}
          </span>
        </li>
      ))}
    </ul>
  );
}

/** The calls in order of time; those whose order is unknown are in that of the record. */
function Steps(props: { turn: Turn; calls: ToolCall[] }): JSX.Element {
  const { calls, turn: { steps } } = props;
  const all: Step[] = [...steps, ...calls.flatMap((_, tool) => (steps.some((step) => step.tool === tool) ? [] : { tool }))];
  if (!all.length) return <p class="none">No tool was called.</p>;
  return (
    <>
      {all.map((step) => {
        const call = calls[step.tool ?? -1];
        const number = step.tool! + 1;
        const start = step.start_ms == null ? "" : `at ${duration(step.start_ms)}`;
        if (!call) return <p class="step">{start} <span>{visible(step.model ?? "model")}</span> {duration(step.duration_ms)}</p>;
        return (
          <Fold
            mark={<><span class="at">{start || number}</span>{call.error !== null && <Mark outcome="error" label />}</>}
            name={<code>{visible(call.name)}</code>} why={call.args} score={call.duration_ms === null ? "" : duration(call.duration_ms)}
          >
            <div class="pair">
              <div><h5>Arguments</h5><Text text={call.args} label={`Arguments of call ${number}`} /></div>
              <div>
                <h5>{call.error !== null ? "Error" : "Result"}</h5>
                <Text text={call.error ?? call.result} none="There is no result." label={`Result of call ${number}`} />
              </div>
            </div>
          </Fold>
        );
      })}
      {all.some((step) => step.start_ms == null) && <p class="soft">In the order of the record; not all times are known.</p>}
    </>
  );
}

/** What a coding agent changed: a fold a file. */
function ChangedFiles(props: Workspace): JSX.Element {
  return (
    <Section title={`Changed files (${props.files.length})`}>
      {props.files.map((file) => (
        <Fold name={<code>{visible(file.path)}</code>} why={file.change}>
          {file.difference === null ? <p class="none">Its difference is not kept.</p> : (
            <pre class="diff" tabIndex={0} role="group" aria-label={`Difference of ${file.path}`}>
              {file.difference.split("\n").map((line) => {
                const Line = line[0] === "+" ? "ins" : line[0] === "-" ? "del" : "span";
                return <Line>{visible(line)}{"\n"}</Line>;
              })}
            </pre>
          )}
        </Fold>
      ))}
      {props.cut && <p class="soft">The rest of the difference was cut.</p>}
      {props.kept && <p class="soft">If the trial failed, its files are in <code>{visible(props.kept)}</code>.</p>}
    </Section>
  );
}

/** Calls as lines, so that those of two runs can be compared. */
function callsText(calls: ToolCall[]): string {
  return calls.map((call) => `${call.name} ${call.args}\n→ ${call.error ?? call.result ?? "(no result)"}\n`).join("\n");
}

const isShort = (text: string): boolean => text.length <= 80 && !text.includes("\n");
const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

function Usage(props: { turn: Turn }): JSX.Element | null {
  const { turn } = props;
  const facts: [string, string][] = [];
  const tokens = tokensOf(turn);
  const cost = turn.usage?.cost_usd ?? null;
  const models = modelsOf(turn);
  if (turn.latency_ms !== null) facts.push(["Latency", duration(turn.latency_ms)]);
  if (turn.first_token_ms !== null) facts.push(["First token", duration(turn.first_token_ms)]);
  if (tokens !== null) facts.push(["Tokens", count(tokens)]);
  if (cost !== null) facts.push(["Cost", usd(cost)]);
  if (models.length) facts.push([models.length === 1 ? "Model" : "Models", models.map(visible).join(", ")]);
  for (const [name, text] of factsOf(turn)) if (isShort(text)) facts.push([capital(visible(name)), visible(text)]);
  if (!facts.length) return null;
  return <dl class="facts">{facts.map(([name, value]) => <div><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}
