/** The keys, in a dialog. */

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { IconButton } from "./icons";

export const KEYS: readonly [string, string][] = [
  ["j  ↓", "next case"],
  ["k  ↑", "previous case"],
  ["Enter", "into the open case"],
  ["/", "search"],
  ["Esc", "leave the search, close the case"],
  ["f", "only failed cases, or all"],
  ["g", "cases as a table, or as a list"],
  ["d", "differences side by side or inline"],
  ["b", "beside the base, beside another run, or this run alone"],
  ["t", "next trial"],
  ["c", "copy the command that runs the case alone"],
  ["l", "label answers, or stop"],
  ["r  w", "label the answer: right, wrong"],
  ["a  t  b  s", "of two answers: A is better, tie, B is better, skip"],
  ["1 to 6", "cases, summary, metrics, compare, trend, pairs"],
  ["?", "this help"],
];

export function Help(props: { onClose: () => void }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current!.showModal(), []);
  return (
    <dialog ref={dialog} onClose={props.onClose} aria-label="Keyboard">
      <div class="line">
        <h2>Keyboard</h2>
        <span class="grow" />
        <IconButton name="close" label="Close" onClick={() => dialog.current!.close()} />
      </div>
      <table class="keys">
        <tbody>
          {KEYS.map(([keys, what]) => (
            <tr><td>{keys.split("  ").map((key) => <kbd>{key}</kbd>)}</td><td>{what}</td></tr>
          ))}
        </tbody>
      </table>
    </dialog>
  );
}
