"""What candidates need of a case's reference, read from its sealed bundle: nothing of it is run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from capture.bundle import Bundle
from capture.compare import Side, first_difference, reference_run
from capture.control import control_margin_nats, yardsticks
from capture.errors import VocabularyError
from capture.identity import vocabulary_hash
from capture.model import Case, Prompt, Run, Steps, Token


@dataclass(frozen=True, slots=True)
class Reference:
    """A sealed reference of one case.

    Attributes:
        path: its bundle.
        case: the case it ran.
        prompt: the prompt ids that every lane gets.
        run: its first free run by decode, along which the others are forced.
        steps: of that run.
        stop_ids: the ids that end a free run.
        vocabulary_hash: of its tokenizer, empty where none is known.
        tokens: what its bundle mentions, by id.
        control_margin_nats: how much the benign control moves its margins, see `control`.
    """

    path: Path
    case: Case
    prompt: Prompt
    run: Run
    steps: Steps
    stop_ids: tuple[int, ...]
    vocabulary_hash: str
    tokens: Mapping[int, Token]
    control_margin_nats: float = 0.0

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The reference's output."""
        return tuple(self.steps.token_id.tolist())


def read_reference(path: Path) -> Reference:
    """Read a sealed bundle as a reference.

    Raises:
        BundleError: it cannot be read.
        ComparisonError: it holds no free run.
    """
    with Bundle(path) as bundle:
        run = reference_run(bundle)
        return Reference(
            path=path,
            case=bundle.facts.case,
            prompt=bundle.prompt,
            run=run,
            steps=bundle.steps(run.run_id),
            stop_ids=bundle.facts.stop_ids,
            vocabulary_hash=bundle.facts.vocabulary_hash,
            tokens=bundle.tokens(),
            control_margin_nats=control_margin_nats([Side.of(bundle, own.run_id) for own in yardsticks(bundle)]),
        )


def check_same_vocabulary(reference: Reference, runtime: str, vocabulary: Mapping[int, Token]) -> None:
    """Refuse a runtime whose token ids stand for other bytes than the reference's.

    Raises:
        VocabularyError: names the runtime and the first id that differs.
    """
    if reference.vocabulary_hash == vocabulary_hash(vocabulary.values()):
        return
    difference = first_difference(dict(reference.tokens), dict(vocabulary))
    if difference is not None:
        raise VocabularyError(
            f"runtime '{runtime}' has a different tokenizer than the reference: token {difference} is "
            f"{vocabulary[difference].data!r} there and {reference.tokens[difference].data!r} in the reference; "
            "lanes of one study must share a vocabulary, so leave it out"
        )
