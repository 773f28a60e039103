"""What the services of a run taught about their models while it ran."""

from __future__ import annotations

from holodeck_action.llm.providers import ModelPlan
from holodeck_action.suite.model.providers import ApiName


class Learned:
    """The corrections that services gave; all clients of a run share one instance, so that each is needed once.

    Attributes:
        notices: one sentence for each correction, for the reader of the record.
    """

    def __init__(self) -> None:
        self.notices: list[str] = []
        self._apis: dict[tuple[str, str, str], ApiName] = {}

    def api_of(self, plan: ModelPlan) -> ApiName:
        """Return the API through which a model is called."""
        return self._apis.get(_identity(plan), plan.api)

    def use_responses(self, plan: ModelPlan) -> None:
        """Call a model through the Responses API from now on, and note it once."""
        if self.api_of(plan) != "responses":
            self._apis[_identity(plan)] = "responses"
            self.notices.append(
                f"{plan.title} was called through the Responses API, because its service refused a chat completion and "
                "named that API; for the suite's own model, `openai: {api: responses}` avoids the refused call"
            )


def _identity(plan: ModelPlan) -> tuple[str, str, str]:
    return plan.provider, plan.account.base_url, plan.name
