/** Buttons with which a person says what is right, and the field for the reason. */

import type { JSX } from "preact";
import { visible } from "./format";
import type { Label, Labels, Place } from "./labels";
import { keyOf } from "./labels";
import { useShared } from "./state";

export function LabelButtons(props: { place: Place; labels: Labels }): JSX.Element {
  const { dispatch } = useShared();
  const label = props.labels.get(keyOf(props.place))?.label;
  const about = props.place.metric ? visible(props.place.metric) : "the answer";
  const button = (value: Label, word: string, mark: string): JSX.Element => (
    <button
      type="button"
      class={value}
      aria-pressed={label === value}
      aria-label={`${word}: ${about}`}
      onClick={() => dispatch({ do: "label", place: props.place, said: { label: value } })}
    >
      <span aria-hidden="true">{mark}</span> {word}
    </button>
  );
  return (
    <span class="switch labels" role="group" aria-label={`Your label of ${about}`}>
      {button("pass", "Right", "✓")}
      {button("fail", "Wrong", "✗")}
    </span>
  );
}

/** The comment of a label, or a note on an answer that has none. */
export function Note(props: { place: Place; labels: Labels }): JSX.Element {
  const { dispatch } = useShared();
  const said = props.labels.get(keyOf(props.place));
  const about = props.place.metric ? visible(props.place.metric) : "the answer";
  return (
    <>
      <textarea class="comment" rows={1} dir="auto" placeholder="Note" aria-label={`Note on ${about}`} value={said?.comment ?? ""}
        onInput={(event) => dispatch({ do: "label", place: props.place, said: { comment: event.currentTarget.value } })} />
      {said?.annotator && <span class="tag" title="Annotator">{visible(said.annotator)}</span>}
    </>
  );
}
