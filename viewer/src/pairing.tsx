/** Two answers side by side: the reader says which is better, and learns only then whose they are. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Evaluation } from "./data";
import { number, plural, visible } from "./format";
import type { Pair, PairLabels, PairPlace, Preference } from "./pairs";
import { pairsOf, preferred } from "./pairs";
import { useShared } from "./state";
import { Section, Text } from "./text";

/** `places` are those of the whole page once `complete`; `labels` are what the reader said. */
export function PairsView(props: { places: readonly PairPlace[]; complete: boolean; labels: PairLabels }): JSX.Element {
  const { labels } = props;
  const [skipped, setSkipped] = useState<ReadonlySet<string>>(new Set());
  const [chosen, choose] = useState<PairPlace | null>(null);
  // In an order that says nothing of the verdicts on the cases.
  const places = [...props.places].sort((one, other) => one.order - other.order || one.row - other.row);
  const open = (place: PairPlace): boolean => !labels.get(place.key)?.label && !skipped.has(place.key);
  const place = chosen ?? places.find(open) ?? null;
  const pair = usePair(place);
  useEffect(() => { if (chosen === null && place !== null && props.complete) choose(place); });
  if (!props.complete) return <p class="none" role="status">Reading the cases …</p>;
  const at = place === null ? places.length : places.indexOf(places.find((one) => one.row === place.row && one.trial === place.trial)!);
  const next = (without: string | null): void =>
    choose([...places.slice(at + 1), ...places.slice(0, at)].find((one) => open(one) && one.key !== without) ?? null);
  const skip = (): void => {
    setSkipped(new Set([...skipped, place!.key]));
    next(place!.key);
  };
  const done = places.filter((one) => labels.get(one.key)?.label).length;
  return (
    <div class="blind">
      <h2>Which answer is better?</h2>
      <p class="soft" role="status">
        {places.length ? `${done} of ${plural(places.length, "pair")} labelled` : "No answer of this run differs from the base's."}
      </p>
      {place === null && places.length > 0 && (
        <p class="none">
          No pair is left.{" "}
          {skipped.size > 0 && <button type="button" class="plain" onClick={() => setSkipped(new Set())}>Show the skipped ones</button>}
        </p>
      )}
      {place !== null && pair === undefined && <p class="none" role="status">Unpacking …</p>}
      {place !== null && pair && (
        <OnePair key={`${place.row} ${place.trial}`} pair={pair} labels={labels} onSkip={skip} onNext={() => next(null)}
          onBack={at > 0 ? () => choose(places[at - 1]!) : null} />
      )}
    </div>
  );
}

/** A pair with its texts; undefined while they are unpacked. */
function usePair(place: PairPlace | null): Pair | undefined {
  const { page } = useShared();
  const [found, setFound] = useState<Pair>();
  useEffect(() => {
    let current = true;
    if (place !== null) {
      void page.detail(place.row).then((detail) => {
        if (current && detail) setFound(pairsOf(page.head, page.index, place.row, detail).find((one) => one.trial === place.trial));
      });
    }
    return () => { current = false; };
  }, [page, place?.row, place?.trial]);
  return found && place && found.row === place.row && found.trial === place.trial ? found : undefined;
}

function OnePair(props: {
  pair: Pair; labels: PairLabels; onSkip: () => void; onNext: () => void; onBack: (() => void) | null;
}): JSX.Element {
  const { dispatch } = useShared();
  const { pair, labels } = props;
  const said = preferred(labels, pair);
  const put = (label: Preference | null, comment: string): void => dispatch({
    do: "prefer",
    key: pair.key,
    said: {
      suite: pair.suite, input: pair.question, response: pair.ours, other: pair.theirs, truth: pair.truth, label, comment, annotator: null,
    },
  });
  const found = labels.get(pair.key);
  const comment = found?.comment ?? "";
  const say = (key: string, label: Preference, words: string): JSX.Element => (
    <button type="button" data-key={key} aria-pressed={said === label} disabled={said !== null} onClick={() => put(label, comment)}>
      {words} <kbd>{key}</kbd>
    </button>
  );
  const sides = pair.first ? [pair.ours, pair.theirs] : [pair.theirs, pair.ours];
  return (
    <article class="turn" aria-label="Two answers">
      <h3 class="unseen">Two answers</h3>
      <Section title={pair.conversation ? "What the user wants" : "Input"}><Text text={pair.question} label="Input" class="said" whole /></Section>
      {pair.truth !== "" && <Section title="Expected"><Text text={pair.truth} label="Expected" class="said" whole /></Section>}
      <div class="pair">
        {sides.map((text, side) => (
          <Section title={side === 0 ? "A" : "B"}><Answer text={text} conversation={pair.conversation} name={side === 0 ? "A" : "B"} /></Section>
        ))}
      </div>
      <div class="ask">
        <span class="switch" role="group" aria-label="Your label of both answers">
          {say("a", pair.first ? "win" : "loss", "A is better")}
          {say("t", "tie", "Tie")}
          {say("b", pair.first ? "loss" : "win", "B is better")}
        </span>
        {said === null && <button type="button" class="plain" data-key="s" onClick={props.onSkip}>Skip <kbd>s</kbd></button>}
        {said !== null && <button type="button" class="plain" onClick={() => { put(null, comment); props.onSkip(); }}>Remove the label</button>}
        <textarea class="comment" rows={1} dir="auto" placeholder="Note" aria-label="Note on both answers" value={comment}
          onInput={(event) => put(found?.label ? said : null, event.currentTarget.value)} />
        {found?.annotator && <span class="tag" title="Annotator">{visible(found.annotator)}</span>}
      </div>
      {said !== null && <Revealed pair={pair} />}
      <p class="line choices">
        {props.onBack && <button type="button" class="plain" data-key="k" onClick={props.onBack}>Previous pair <kbd>k</kbd></button>}
        <span class="grow" />
        <button type="button" class="plain" data-key="j" onClick={props.onNext}>Next pair <kbd>j</kbd></button>
      </p>
    </article>
  );
}

function Answer(props: { text: string; conversation: boolean; name: string }): JSX.Element {
  if (!props.conversation || !props.text.startsWith("[")) return <Text text={props.text} label={props.name} class="said" whole />;
  const messages = JSON.parse(props.text) as { role: string; content: string }[];
  return (
    <>
      {messages.map((message, at) => (
        <>
          <h5>{message.role === "user" ? "User" : "Agent"}</h5>
          <Text text={message.content} label={`${props.name}, message ${at + 1}`} class="said" whole />
        </>
      ))}
    </>
  );
}

/** Whose the answers are, and what the judge says. */
function Revealed(props: { pair: Pair }): JSX.Element {
  const { dispatch } = useShared();
  const { pair } = props;
  return (
    <div class="revealed" role="status">
      <p><b>{pair.first ? "A is this run's answer, B the base's." : "A is the base's answer, B this run's."}</b></p>
      {pair.verdicts.map((one) => (
        <p dir="auto">{visible(one.name)}: {verdictText(one)}{one.explanation ? `: ${visible(one.explanation)}` : ""}</p>
      ))}
      <button type="button" class="plain" onClick={() => dispatch({ do: "open", row: pair.row })}>Open the case</button>
    </div>
  );
}

function verdictText(one: Evaluation): string {
  if (one.score === null) return visible(one.reason || one.outcome);
  return one.score === 1 ? "this run's answer is better" : one.score === 0 ? "the base's answer is better" : one.score === 0.5 ? "a tie" : number(one.score);
}
