/** A trial as a case of agent.yaml, to be pasted below `test_cases`. */

import type { Trial, Turn } from "./data";

/** Characters that a reader does not see, or that change how a line looks. */
const HIDDEN = /[\u007f-\u00a0\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const LONGEST_COMMENT = 300;

/** The case; null if the trial asked nothing. */
export function asCase(title: string, trial: Trial): string | null {
  const turns = trial.turns.filter((turn) => turn.skipped === null);
  if (!turns.length || turns.some((turn) => !turn.input.trim())) return null;
  const several = turns.length > 1;
  const decisions = turns.flatMap((turn, at) => decisionsOf(turn, several ? `turn ${at + 1}: ` : ""));
  const fields = turns.map(fieldsOf);
  const asked = several
    ? ["  turns:", ...fields.flatMap(([input, ...rest]) => [`    - ${input}`, ...rest.map((field) => `      ${field}`)])]
    : fields[0]!.map((field) => `  ${field}`);
  return [...decisions.map((text) => `# ${text}`), `- name: ${scalar(title)}`, ...asked, ""].join("\n");
}

function fieldsOf(turn: Turn): string[] {
  const expected = turn.ground_truth === null ? [] : [`ground_truth: ${scalar(turn.ground_truth)}`];
  return [`input: ${scalar(turn.input)}`, ...expected];
}

/** What a person must decide: an answer that was given is not one that is right. */
function decisionsOf(turn: Turn, start: string): string[] {
  if (turn.ground_truth !== null) return [];
  const question = `${start}decide: what is the right answer?`;
  if (turn.error) return [`${question} There was an error: ${comment(turn.error.message)}`];
  return [turn.response === null ? `${question} It is unknown what it was` : `${question} It was: ${comment(turn.response)}`];
}

/** A text in double quotes: JSON is YAML, in which `${` would begin a variable. */
function scalar(text: string): string {
  const quoted = JSON.stringify(text.replace(/\$\{/g, () => "$${"));
  return quoted.replace(HIDDEN, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function comment(text: string): string {
  const line = text.replace(HIDDEN, " ").replace(/[\s\u0000-\u001f]+/g, " ").trim();
  const signs = [...line];
  return signs.length > LONGEST_COMMENT ? `${signs.slice(0, LONGEST_COMMENT).join("")} …` : line;
}
