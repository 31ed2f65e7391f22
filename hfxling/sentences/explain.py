"""Which word links make the score of a sentence and its translation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hfxling.encoders.protocol import languages_of
from hfxling.evaluation.results import format_table
from hfxling.values import check_counts
from hfxling.verbs import Languages, Result, verb

if TYPE_CHECKING:
    from hfxling.models.modeling_lexical import Term


@dataclass(frozen=True, repr=False)
class Explanation(Result):
    """The parts of a sentence pair's score.

    Attributes:
        languages: language codes of the pair.
        terms: links and what each adds, the largest first.
        shown: how many of them the table shows.
    """

    languages: Languages
    terms: list[Term]
    shown: int

    @property
    def score(self) -> float:
        """The sum of what all links add."""
        return sum(term.contribution for term in self.terms)

    def table(self) -> str:
        """One line for each link, then the score."""
        rows = []
        for term in self.terms[: self.shown]:
            rows.append([term.source, term.target, f"{term.contribution:+.3f}", f"{term.share:+.1%}"])
        lines = [format_table([*self.languages, "adds", "share"], rows)]
        score = f"score {self.score:.3f}"
        rest = self.terms[self.shown :]
        if rest:
            score += f" ({len(rest)} more links add {sum(term.contribution for term in rest):+.3f})"
        lines.append(score)
        return "\n".join(lines)


@verb
def explain(
    source: str,
    target: str,
    *,
    model: Any,
    revision: str | None = None,
    languages: Languages | None = None,
    top: int = 20,
) -> Explanation:
    """Show the word links that make up the score of a sentence pair.

    Example:
        >>> print(hfxling.explain("今天下雨。", "Hôm nay trời mưa.", model="outputs/fit/model").table())

    Args:
        source: a sentence.
        target: its translation, or a sentence that might be one.
        model: folder or Hub id of a lexical model, or a loaded one; of a folder that `hfxling fit` wrote, the lexical
            model in it is used.
        revision: branch, tag or commit of the model on the Hub.
        languages: language codes of both sentences; by default the model's first two.
        top: number of links that are shown.

    Returns:
        All links, with what each adds to the score.

    Raises:
        ValueError: another kind of model, languages that it does not know, an empty sentence, or `top` below 1.
        FileNotFoundError: a model that does not exist.
    """
    check_counts(1, top=top)
    from hfxling.encoders.sparse import LexicalEncoder, with_links  # loads torch

    encoder = LexicalEncoder(with_links(model), revision)
    pair = languages_of(encoder, languages)
    terms = encoder.model.explain(source, target, pair)
    return Explanation(pair, terms, top)
