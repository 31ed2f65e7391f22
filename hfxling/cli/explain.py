"""The linked words that make the score of a sentence and its translation, by a lexical model.

hfxling explain "今天下雨。" "Hôm nay trời mưa." --model outputs/lexical_quickstart/model [--top 10]
"""

from __future__ import annotations

from dataclasses import dataclass

from hfxling.arguments import key, parse_arguments
from hfxling.evaluation.results import format_table


@dataclass(kw_only=True)
class ExplainArguments:
    """A sentence pair and a model."""

    source: str = key("a sentence", positional=True)
    target: str = key("its translation, or what might be one", positional=True)
    model: str = key("folder or Hub id of a lexical model")
    model_revision: str | None = key("branch, tag or commit of the model", None)
    source_lang: str | None = key("by default the model's first language", None)
    target_lang: str | None = key("by default the model's second language", None)
    top: int = key("links shown", 20, least=1)


def main(argv: list[str] | None = None) -> None:
    (args,) = parse_arguments((ExplainArguments,), argv, prog="hfxling explain", description=__doc__)
    from hfxling.missing import one_line_where_missing
    from hfxling.models.modeling_lexical import LexicalModel

    with one_line_where_missing(args.model, "model", "a lexical model"):
        model = LexicalModel.from_pretrained(args.model, revision=args.model_revision)
    first, second = model.config.languages[:2]
    pair = args.source_lang or first, args.target_lang or second
    terms = model.explain(args.source, args.target, pair)
    rows = [[term.source, term.target, f"{term.contribution:+.3f}", f"{term.share:+.1%}"] for term in terms]
    print(format_table([*pair, "adds", "share"], rows[: args.top]))
    rest = sum(term.contribution for term in terms[args.top :])
    left = f" ({len(terms) - args.top} more links add {rest:+.3f})" if terms[args.top :] else ""
    print(f"score {sum(term.contribution for term in terms):.3f}{left}")
