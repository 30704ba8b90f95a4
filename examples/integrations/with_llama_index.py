"""Guard a query engine of LlamaIndex: run it, and see what becomes of two answers."""

from pathlib import Path

from llama_index.core import SummaryIndex, get_response_synthesizer
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.schema import TextNode

import calibrail
from calibrail.integrations.llama_index import GuardrailSynthesizer

FILE = Path("guardrail.json")
if not FILE.exists():
    calibrail.calibrate("example:facts", score="novelty", alpha=0.3).freeze().save(FILE)


class Model(CustomLLM):
    """A model that says what it was made to say."""

    text: str

    @property
    def metadata(self) -> LLMMetadata:
        """Return the defaults."""
        return LLMMetadata()

    def complete(self, prompt: str, formatted: bool = False, **_) -> CompletionResponse:
        """Answer every prompt alike."""
        return CompletionResponse(text=self.text)

    stream_complete = complete


source = TextNode(text="Tungsten is a metal with the symbol W and atomic number 74.")
for answer in ("Tungsten has the symbol W.", "Copper melts at 4 degrees in the town of Lyon."):
    llm = Model(text=answer)
    synthesizer = GuardrailSynthesizer(FILE, get_response_synthesizer(llm=llm))
    engine = SummaryIndex([source]).as_query_engine(llm=llm, response_synthesizer=synthesizer)
    response = engine.query("Which element has the symbol W?")
    print(f"{response.metadata['calibrail']['outcome']}: {response}")
