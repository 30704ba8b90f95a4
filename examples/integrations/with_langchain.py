"""An agent of LangChain that says only what its sources support. Runs offline."""

from pathlib import Path

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

import calibrail
from calibrail.integrations.langchain import GuardrailMiddleware

if not Path("guardrail.json").exists():
    run = calibrail.calibrate("example:facts", score="novelty", alpha=0.1)
    run.freeze().save("guardrail.json")


class Model(GenericFakeChatModel):
    """Stands in for your model: searches once, then says what it is told to."""

    def bind_tools(self, tools, **options):
        """Take tools, and go on as before."""
        return self


@tool
def search(query: str) -> str:
    """Search the sources."""
    return "Tungsten is a metal with the symbol W and atomic number 74."


for answer in ("Tungsten has the symbol W.", "Copper melts at 4 degrees in the town of Lyon."):
    call = {"name": "search", "args": {"query": "W"}, "id": "1"}
    model = Model(messages=iter([AIMessage("", tool_calls=[call]), AIMessage(answer)]))
    agent = create_agent(model, [search], middleware=[GuardrailMiddleware("guardrail.json")])
    state = agent.invoke({"messages": [("user", "Which element has the symbol W?")]})
    last = state["messages"][-1]
    print(f"{last.response_metadata['calibrail']['outcome']}: {last.text}")
