/** Buttons with which a person says what is right. */

import type { JSX } from "preact";
import { visible } from "./format";
import type { Label, Labels, Place } from "./labels";
import { keyOf } from "./labels";
import { useShared } from "./state";

export function LabelButtons(props: { place: Place; labels: Labels }): JSX.Element {
  const { dispatch } = useShared();
  const label = props.labels.get(keyOf(props.place));
  const about = props.place.metric ? visible(props.place.metric) : "the answer";
  const button = (value: Label, word: string, mark: string): JSX.Element => (
    <button
      type="button"
      class={value}
      aria-pressed={label === value}
      aria-label={`${word}: ${about}`}
      onClick={() => dispatch({ do: "label", place: props.place, label: value })}
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
