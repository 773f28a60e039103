/** How a whole conversation was graded. */

import type { JSX } from "preact";
import type { Metric } from "./columns";
import type { Conversation } from "./data";
import type { Labelling } from "./evaluations";
import { ComparedEvaluations, Evaluations } from "./evaluations";
import { Mark } from "./icons";
import { Problems, Section } from "./text";

/** `base` is that of the run of the name `baseName`. */
export function ConversationView(props: {
  whole: Conversation; base: Conversation | null; baseName: string; metrics: Metric[]; labelling: Labelling | null;
}): JSX.Element {
  const { whole, base } = props;
  return (
    <article class="turn" aria-label="Whole conversation">
      <header><Mark outcome={whole.outcome} label /> <h3>Whole conversation</h3></header>
      <Problems said={whole.problems} />
      <Section title="Evaluations">
        {base && <ComparedEvaluations base={base.evaluations} baseName={props.baseName} head={whole.evaluations} />}
        <Evaluations evaluations={whole.evaluations} metrics={props.metrics} said={whole.problems} labelling={props.labelling} />
      </Section>
    </article>
  );
}
