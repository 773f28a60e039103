/** One turn of a conversation: question, answer, and everything that is known about both. */

import type { JSX } from "preact";
import { Compared, ModeSwitch } from "./compared";
import type { Metric } from "./columns";
import type { ToolCall, Turn, Workspace } from "./data";
import type { Labelling } from "./evaluations";
import { ComparedEvaluations, Evaluations } from "./evaluations";
import { count, duration, number, usd, visible } from "./format";
import { Mark } from "./icons";
import { LabelButtons, Note } from "./marking";
import { chunksOf, factsOf, modelsOf, tokensOf } from "./record";
import type { Mode } from "./state";
import { Section, Text } from "./text";

interface Properties { turn: Turn; number: number; of: number; metrics: Metric[]; mode: Mode; labelling: Labelling | null }

/** `base` is the same turn of the run of the name `baseName`. */
export function TurnView(props: Properties & { base: Turn | null; baseName: string }): JSX.Element {
  const { turn, base } = props;
  const calls = turn.tool_invocations ?? [];
  const chunks = chunksOf(turn);
  const context = turn.context ?? [];
  return (
    <article class="turn" aria-label={`Turn ${props.number}`}>
      <header class={props.of > 1 ? "" : "unseen"}>
        <Mark outcome={turn.outcome} label /> <h3>Turn {props.number} of {props.of}</h3>
      </header>
      {turn.problems.length > 0 && (
        <ul class="problems">{turn.problems.map((problem) => <li dir="auto">{visible(problem)}</li>)}</ul>
      )}
      {turn.error !== null && <p class="problems" dir="auto">{visible(turn.error.message)}</p>}
      <Section title={speaker(turn)}><Text text={turn.input} label={speaker(turn)} class="said" /></Section>
      {base ? <BesideBase {...props} base={base} /> : <Answer {...props} />}
      {props.labelling && (
        <div class="ask">
          <span>Is this answer right?</span>
          <LabelButtons place={{ ...props.labelling.place, metric: "" }} labels={props.labelling.labels} />
          <Note place={{ ...props.labelling.place, metric: "" }} labels={props.labelling.labels} />
        </div>
      )}
      {(turn.tool_assertions.length > 0 || calls.length > 0) && (
        <Section title="Tool calls">
          <ExpectedTools turn={turn} />
          {base && callsText(base.tool_invocations ?? []) !== callsText(calls) ? (
            <Compared left={callsText(base.tool_invocations ?? [])} right={callsText(calls)} leftName={props.baseName} rightName="This run" mode={props.mode} code />
          ) : (
            <ToolCalls calls={calls} />
          )}
        </Section>
      )}
      {turn.workspace && <ChangedFiles {...turn.workspace} />}
      {turn.evaluations.length > 0 && (
        <Section title="Evaluations">
          {base && <ComparedEvaluations base={base.evaluations} baseName={props.baseName} head={turn.evaluations} />}
          <Evaluations evaluations={turn.evaluations} metrics={props.metrics} said={turn.problems} labelling={props.labelling} />
        </Section>
      )}
      {chunks.length > 0 && (
        <Section title={`Retrieved chunks (${chunks.length})`}>
          {chunks.map((chunk, at) => (
            <details class="item">
              <summary>
                <span class="name">{visible(chunk.id ?? `chunk ${at + 1}`)}</span>
                {chunk.score !== null && <span class="score">{number(chunk.score)}</span>}
                <span class="why">{visible((chunk.text ?? "").slice(0, 160))}</span>
              </summary>
              <Text text={chunk.text ?? ""} label={`Chunk ${at + 1}`} />
            </details>
          ))}
        </Section>
      )}
      {context.length > 0 && (
        <Section title={`Context (${context.length})`}>
          {context.map((text, at) => (
            <details class="item">
              <summary><span class="name">text {at + 1}</span><span class="why">{visible(text.slice(0, 160))}</span></summary>
              <Text text={text} label={`Context ${at + 1}`} />
            </details>
          ))}
        </Section>
      )}
      {factsOf(turn).map(([name, text]) => !isShort(text) && <Section title={visible(name)}><Text text={text} label={name} /></Section>)}
      <Usage turn={turn} />
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

function ToolCalls(props: { calls: ToolCall[] }): JSX.Element {
  if (!props.calls.length) return <p class="none">No tool was called.</p>;
  return (
    <>
      {props.calls.map((call, at) => (
        <details class="item">
          <summary>
            <span class="at">{at + 1}</span>
            <code class="name">{visible(call.name)}</code>
            {call.error !== null && <Mark outcome="error" label />}
            <code class="why">{visible(call.args.replace(/\s+/g, " ").slice(0, 200))}</code>
            <span class="score">{call.duration_ms === null ? "" : duration(call.duration_ms)}</span>
          </summary>
          <div class="pair">
            <div><h5>Arguments</h5><Text text={call.args} label={`Arguments of call ${at + 1}`} /></div>
            <div>
              <h5>{call.error !== null ? "Error" : "Result"}</h5>
              <Text text={call.error ?? call.result} none="There is no result." label={`Result of call ${at + 1}`} />
            </div>
          </div>
        </details>
      ))}
    </>
  );
}

/** What a coding agent changed: a fold a file. */
function ChangedFiles(props: Workspace): JSX.Element {
  return (
    <Section title={`Changed files (${props.files.length})`}>
      {props.files.map((file) => (
        <details class="item">
          <summary><code class="name">{visible(file.path)}</code><span class="why">{file.change}</span></summary>
          {file.difference === null ? <p class="none">Its difference is not kept.</p> : (
            <pre class="diff" tabIndex={0} role="group" aria-label={`Difference of ${file.path}`}>
              {file.difference.split("\n").map((line) => {
                const Line = line[0] === "+" ? "ins" : line[0] === "-" ? "del" : "span";
                return <Line>{visible(line)}{"\n"}</Line>;
              })}
            </pre>
          )}
        </details>
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
