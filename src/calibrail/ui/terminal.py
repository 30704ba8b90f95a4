"""Labelling in a terminal, and a sitting there or on the page."""

import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Final, Literal, NamedTuple, TextIO

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from calibrail.errors import CalibrailError
from calibrail.formatting import count
from calibrail.labelling.session import Counts, Session, Task
from calibrail.report.messages import say, word
from calibrail.report.text import clean, excerpt, short
from calibrail.scores.entailment import filled_places, nearest
from calibrail.text.sentences import sentences
from calibrail.text.words import content_words
from calibrail.working_folder import signal_handlers


class Keys:
    """A command a line, typed or from a pipe: ``f``, ``12``, ``m the second war``.

    Parameters
    ----------
    stream : text stream
        What is read. Before a terminal the commands are shown, too.
    """

    def __init__(self, stream: TextIO) -> None:
        self.watched = stream.isatty()
        self._stream = stream

    def read(self) -> tuple[str, str] | None:
        """Return the first word of the next line, and what stands behind it; None at the end."""
        for line in self._stream:
            word, _, rest = line.strip().partition(" ")
            if word:
                return word, rest.strip()
        return None


class ChunkQuote(NamedTuple):
    """A part of a chunk, in code points."""

    chunk: int
    start: int
    end: int


def sentence_places(response: str) -> list[tuple[int, int]]:
    """Return where the sentences of an answer stand, in code points."""
    return [(item.start, item.end) for item in sentences(response)]


def nearest_quote(sentence: str, contexts: Sequence[str]) -> ChunkQuote | None:
    """Return the sentence of all chunks that shares most words with one of the answer.

    None where no chunk shares any.
    """
    if not filled_places(contexts):
        return None
    item = nearest(sentence, contexts)
    chunk, start, end = (int(str(item[f"chunk{name}"])) for name in ("", "_start", "_end"))
    wanted = {word.text for word in content_words(sentence)}
    shared = wanted & {word.text for word in content_words(contexts[chunk][start:end])}
    return ChunkQuote(chunk, start, end) if shared else None


_LABELS: Final = {"f": 0, "h": 1, "u": None}
_NAMES: Final = {0: "faithful", 1: "hallucinated", None: "unsure"}

_KEYS: Final = "f faithful  h hallucinated  u unsure  s skip  z undo  ? more  q stop, and Enter"
#: What a command leads to.
_NextStep = Literal["next", "stay", "stop"]


class Terminal:
    """Shows one answer after another, and takes commands.

    Parameters
    ----------
    session : Session
        Hands out answers and takes labels; each is on disk before the next answer appears.
    annotator : str
        Who labels here.
    keys : Keys
        Where commands come from.
    console : rich.console.Console
        Where texts go. Characters that steer a terminal are left out of them.
    """

    def __init__(self, session: Session, annotator: str, keys: Keys, console: Console) -> None:
        self._session, self._annotator = session, annotator
        self._keys, self._console = keys, console
        self._marks: list[tuple[int, int]] = []
        self._sentence = -1

    def run(self) -> None:
        """Label until there is nothing to do, the data has decided, or somebody stops."""
        announced = False
        while True:
            task = self._session.next(self._annotator)
            decided = self._session.counts(self._annotator).decided
            if task is None or (decided and not announced):
                announced = announced or decided
                if not self._goes_on(task is not None):
                    return
                continue
            self._show(task)
            step: _NextStep = "stay"
            while step == "stay":
                if self._keys.watched:
                    self._console.print()
                    self._console.print(Text(_KEYS, style="dim"))
                try:
                    step = self._do(task, *(self._keys.read() or ("q", "")))
                except CalibrailError as error:
                    self._say(f"Not saved: {error}")
                    step = "next"
            if step == "stop":
                return

    def _goes_on(self, more: bool) -> bool:
        """Say that labels are enough, or that there is nothing left; return whether to go on."""
        if more:
            self._say("The labels are enough. g goes on, z undoes the last label, q stops.")
        else:
            self._say("There is nothing to label now. z undoes the last label, q stops.")
        key, _ = self._keys.read() or ("q", "")
        return self._undo() == "next" if key == "z" else key == "g" and more

    def _do(self, task: Task, key: str, rest: str) -> _NextStep:
        """Do what a command says."""
        match key:
            case "f" | "h" | "u":
                return self._label(task, _LABELS[key])
            case "s":
                self._session.skip(self._annotator, task.order)
                self._say("Skipped; it comes back later.")
                return "next"
            case "z":
                return self._undo()
            case "q":
                return "stop"
            case "a":
                self._console.print(self._response(task))
            case "e":
                self._evidence(task)
            case "m":
                self._mark(task, rest)
            case "c":
                self._marks.clear()
                self._console.print(self._response(task))
            case "?":
                keys = files("calibrail.ui").joinpath("keys.txt").read_text(encoding="utf-8")
                unsure = word("label.unsure", self._session.plan.purpose)
                self._say(keys.rstrip().format(unsure=unsure))
            case _ if key.isdecimal():
                self._chunk(task, key)
            case _:
                self._say(f"No key does {short(key, 20)!r}; ? shows those that do something.")
        return "stay"

    def _label(self, task: Task, label: int | None) -> _NextStep:
        if label == 0 and self._marks:
            self._say("Words are marked that nothing supports: c clears them, h is hallucinated.")
            return "stay"
        spans = [(start, end, task.response[start:end]) for start, end in self._marks]
        self._session.put(self._annotator, task.order, label, spans)
        self._say(f"Saved as {_NAMES[label]}; z takes it back.")
        return "next"

    def _undo(self) -> _NextStep:
        task = self._session.undo(self._annotator)
        self._say("There is nothing to undo." if task is None else "Taken back; it is open again.")
        return "stay" if task is None else "next"

    def _show(self, task: Task) -> None:
        """Show question, answer and chunks."""
        self._marks, self._sentence = [], -1
        counts = self._session.counts(self._annotator)
        progress = [clean(self._annotator), f"{counts.by_you:,} labelled"]
        if counts.needed is not None:
            found = min(counts.found or 0, counts.needed)
            progress.append(f"hallucinated: {found:,} (goal: {counts.needed:,})")
            if counts.to_expect:
                progress.append(f"about {counts.to_expect:,} labels to go")
        if counts.skipped:
            progress.append(f"{counts.skipped:,} skipped")
        if counts.holding:
            progress.append(count(counts.holding, "label waits", "labels wait"))
        self._console.print()
        self._console.print(Rule(Text(" · ".join(progress)), align="left"))
        parts = [Text(why)] if (why := why_shown(task)) else []
        if task.question.strip():
            parts += [_heading("Question"), Text(clean(task.question)), Text()]
        parts += [_heading("Answer", f"No. {task.order:,}"), self._response(task), Text()]
        for index, context in enumerate(task.contexts):
            parts += [_heading(f"Chunk {index + 1}"), Text(clean(context) or "(empty)"), Text()]
        if not task.contexts:
            parts += [Text("There are no chunks: judge by the question alone.")]
        self._console.print(*parts, sep="\n")

    def _say(self, words: str) -> None:
        self._console.print(Text(words, style="bold"))

    def _response(self, task: Task) -> Text:
        """Return the answer with its marks."""
        segments, _, _ = excerpt(task.response, self._marks, len(task.response))
        parts = ((words, "bold underline red" if marked else "") for words, marked in segments)
        return Text.assemble(*parts)

    def _chunk(self, task: Task, key: str) -> None:
        number = int(key[:6])
        if not 1 <= number <= len(task.contexts):
            self._say(f"There is no chunk {number}; there are {len(task.contexts)}.")
            return
        context = clean(task.contexts[number - 1]) or "(empty)"
        self._console.print(_heading(f"Chunk {number}"), Text(context), sep="\n")

    def _evidence(self, task: Task) -> None:
        """Show the next sentence of the answer beside what is nearest to it."""
        places = sentence_places(task.response)
        if not places or not task.contexts:
            self._say("There is nothing to compare.")
            return
        self._session.helped(self._annotator, task.order)
        self._sentence = (self._sentence + 1) % len(places)
        start, end = places[self._sentence]
        sentence = task.response[start:end]
        parts = [_heading(f"Sentence {self._sentence + 1} of {len(places)}"), Text(clean(sentence))]
        quote = nearest_quote(sentence, task.contexts)
        if quote is None:
            parts.append(Text("No chunk shares a word with it."))
        else:
            words = clean(task.contexts[quote.chunk][quote.start : quote.end])
            parts += [_heading(f"Nearest, in chunk {quote.chunk + 1}"), Text(words)]
        self._console.print(*parts, sep="\n")

    def _mark(self, task: Task, words: str) -> None:
        """Mark words where they stand in the answer and are not marked yet."""
        start = task.response.find(words) if words else -1
        while (start, start + len(words)) in self._marks:
            start = task.response.find(words, start + 1)
        if start < 0:
            self._say("The answer does not hold these words, or not once more; nothing is marked.")
            return
        self._marks.append((start, start + len(words)))
        self._console.print(self._response(task))


def why_shown(task: Task) -> str:
    """Return why an answer is shown again: to settle its labels, or to review one's own."""
    if task.said:
        names = {1: "hallucinated", 0: "faithful"}
        said = {clean(name): names[call] for name, call in task.said.items() if name != "you"}
        return say("label.review", own=names[task.said["you"]], said=said)
    return say("label.settles") if task.settles else ""


def _heading(name: str, beside: str = "") -> Text:
    return Text.assemble((name, "bold"), "  ", (beside, "dim"))


def sit(
    session: Session,
    annotator: str,
    tell: Callable[[str], None],
    *,
    terminal: bool = False,
    browser: bool = True,
) -> None:
    """Label, in the terminal or on the page, until somebody stops by q, Ctrl-C or SIGTERM.

    Parameters
    ----------
    session : Session
        Hands out answers and takes labels.
    annotator : str
        Who labels.
    tell : callable
        Takes what is said besides, a line at a time.
    terminal : bool
        Label in the terminal rather than on the page.
    browser : bool
        Open the page in the browser.
    """
    # SIGTERM ends what goes on as Ctrl-C does, with all that is said at the end.
    ending = signal_handlers({signal.SIGTERM: signal.default_int_handler})
    with suppress(KeyboardInterrupt), ending:
        if terminal:
            console = Console(stderr=True, highlight=False)
            Terminal(session, annotator, Keys(sys.stdin), console).run()
            return
        # It needs the packages of the service, which the terminal does not.
        from calibrail.ui.server import serve

        watched = sys.stderr.isatty()

        def address(place: str) -> None:
            tell(f"labelling as {annotator} at {place}")
            tell("Ctrl-C stops; every label is saved at once")

        def progress(counts: Counts) -> None:
            if watched:
                line = f"\r{counts.by_you:,} labelled, {counts.skipped:,} skipped "
                print(line, end="", file=sys.stderr, flush=True)

        serve(session, annotator, address, progress, browser=browser)
        if watched:
            tell("")
