"""Evaluate any model that sentence-transformers loads: a table, and results.json.

hfxling evaluate --model DIR_OR_HUB_ID --task tatoeba [--data ../shared/data/tatoeba] [--key value ...]
hfxling evaluate --model ... --task retrieval --source_lang zh --target_lang vi --data test.zh+test.vi
hfxling evaluate --model ... --task tokens --source_lang zh --target_lang en --data zh-en.tsv

With --baseline DIR_OR_HUB_ID a second model is measured on the same items and every difference is tested.
"""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hfxling.arguments import key, parse_arguments, resolved
from hfxling.data.pharaoh import read_aligned
from hfxling.data.sources import Source, load_pairs
from hfxling.evaluation.plots import scatter_tokens
from hfxling.evaluation.results import EvalResult, format_table, write_results
from hfxling.evaluation.retrieval import CENTERINGS, rank_translations, ranking_results
from hfxling.evaluation.tatoeba import XTREME, load_tatoeba, rank_tatoeba, tatoeba_results, tatoeba_table
from hfxling.evaluation.tokens import sample_pairs, token_results, token_scores
from hfxling.files import content_hash

from .model import FusedArguments

if TYPE_CHECKING:
    from hfxling.encoding import SentenceEncoder

Measured = tuple[list[EvalResult], list[str], list[list]]  # rows, and headers and cells of the table that is printed
logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class EvaluateArguments(FusedArguments):
    """What is measured, on which text."""

    task: str = key("tatoeba, retrieval or tokens")
    baseline: str | None = key("folder or Hub id of a model to compare with", None)
    output: str = key("folder of results.json and pictures", "outputs/evaluate", writes="folder")
    data: list[str] = key(
        "retrieval: sources of text as in the recipes (FILE, FILE+FILE, Hub id or sample; @1-1543 picks lines, #1,0 "
        "columns); tatoeba: a folder, or a Hub id with {source}; tokens: a file of links, or sample",
        [],
    )
    data_name: str | None = key("name of the data in the results", None)
    split: str = key("split of a Hub dataset or of the sample", "test")
    source_lang: str | None = key("language code of the source side", None)
    target_lang: str | None = key("language code of the target side", None)
    languages: list[str] = key("of Tatoeba, ISO 639-3", list(XTREME))
    methods: list[str] = key("cosine, csls", ["cosine"])
    centering: str = key("retrieval: none, or corpus (uses the test text)", "none")
    layer: int | None = key("tokens: hidden_states index; by default the last", None)

    def __post_init__(self):
        super().__post_init__()
        if self.lexical and self.task != "retrieval":
            raise ValueError(f"lexical={self.lexical!r}: for task retrieval; leave it out for {self.task}.")
        if self.task not in TASKS:
            raise ValueError(f"task={self.task!r} is not one of {', '.join(TASKS)}.")
        if self.centering not in ("none", "corpus"):
            raise ValueError(f"centering={self.centering!r}: choose none or corpus (of {', '.join(CENTERINGS)}).")
        lacking = [f"--{name}" for name in ("source_lang", "target_lang", "data") if not getattr(self, name)]
        if lacking and self.task in ("retrieval", "tokens"):
            raise ValueError(f"task {self.task} needs {' and '.join(lacking)}; see --help.")


def tatoeba(args: EvaluateArguments, encoder: SentenceEncoder, baseline: SentenceEncoder | None) -> Measured:
    """36 languages against English, with the averages over 14, 28 and 36."""
    pairs = load_tatoeba(*args.data[:1], languages=args.languages, split=args.split)
    ranked = rank_tatoeba(pairs, encoder.encode, methods=args.methods)
    theirs = rank_tatoeba(pairs, baseline.encode, methods=args.methods) if baseline else None
    rows = tatoeba_results(pairs, ranked, baseline=theirs, **fields(args, encoder, baseline))
    return rows, *tatoeba_table(rows)


def retrieval(args: EvaluateArguments, encoder: SentenceEncoder, baseline: SentenceEncoder | None) -> Measured:
    """Each sentence's own translation among all of them."""
    pairs = load_pairs(args.data, (args.source_lang, args.target_lang), split=args.split)

    def rank(model: SentenceEncoder):
        source = model.encode(pairs["source"], args.source_lang, "query")
        target = model.encode(pairs["target"], args.target_lang, "document")
        methods = args.methods if model.method == "cosine" else [model.method]
        options = {"methods": methods, "centering": args.centering, "csls_k": min(10, len(pairs))}
        return rank_translations(source, target, source_lang=args.source_lang, target_lang=args.target_lang, **options)

    about = fields(args, encoder, baseline) | {"revision": content_hash(pairs["source"], pairs["target"])}
    rows = ranking_results(rank(encoder), baseline=rank(baseline) if baseline else None, **about)
    return rows, *plain_table(rows)


def tokens(args: EvaluateArguments, encoder: SentenceEncoder, baseline: SentenceEncoder | None) -> Measured:
    """Cosine of gold-linked words against unlinked ones, with a picture."""
    is_sample, langs = args.data == ["sample"], (args.source_lang, args.target_lang)
    pairs = sample_pairs(*langs, args.split) if is_sample else read_aligned(args.data[0])
    sides: dict[str, tuple] = {}

    def score(title: str, model: SentenceEncoder):
        def states(sentences):
            found = model.word_states(sentences, args.layer)
            sides[title] = (found[: len(pairs)], found[len(pairs) :])
            return found

        return token_scores(pairs, states)

    theirs = score(f"baseline: {baseline.label}", baseline) if baseline else None
    about = fields(args, encoder, baseline) | {"direction": f"{args.source_lang}->{args.target_lang}"}
    hashed = [[" ".join(getattr(pair, side)) for pair in pairs] for side in ("source", "target")]
    about["revision"] = content_hash(*hashed, [repr((sorted(pair.sure), sorted(pair.possible))) for pair in pairs])
    rows = token_results(score(encoder.label, encoder), baseline=theirs, **about)
    scatter_tokens(Path(args.output) / "tokens.png", sides, langs)
    return rows, *plain_table(rows)


def fields(args: EvaluateArguments, encoder: SentenceEncoder, baseline: SentenceEncoder | None) -> dict:
    """Fields of `EvalResult` that every task fills alike."""
    settings = {"prompt": args.prompt} if args.prompt else {}
    settings |= {"baseline": baseline.label, "baseline_revision": baseline.revision} if baseline else {}
    sources = [Source.parse(text) for text in args.data]
    names = [Path(x.data).resolve().name if Path(x.data).exists() else x.name for x in sources]
    lines = [f"lines {source.lines}" for source in sources if source.lines]
    return {
        "dataset": args.data_name or "+".join(dict.fromkeys(names)) or args.task,
        "split": ", ".join(lines) or args.split,
        "model": encoder.label,
        "model_revision": encoder.revision,
        "settings": settings,
    }


# arguments, model and baseline (or None) to what was measured
Task = Callable[[EvaluateArguments, "SentenceEncoder", "SentenceEncoder | None"], Measured]
TASKS: dict[str, Task] = {"tatoeba": tatoeba, "retrieval": retrieval, "tokens": tokens}


def plain_table(rows: Sequence[EvalResult]) -> tuple[list[str], list[list]]:
    """Headers and rows for `format_table`, a result a row; columns that no result fills are left out."""
    digits = 1 if rows[0].unit == "%" else 3
    columns: dict[str, list] = {}
    for row in rows:
        paired = row.settings.get("paired")
        cells = {"direction": row.direction, "metric": row.metric, "similarity": row.settings.get("method"), "n": row.n}
        cells["value"] = row.value if digits == 1 else f"{row.value:.{digits}f}"
        cells["95 %"] = f"{row.low:.{digits}f} to {row.high:.{digits}f}"
        difference = f"{paired['difference']:+.{digits}f} (p = {paired['p_value']:.2g})" if paired else None
        for name, cell in (cells | {"over the baseline": difference}).items():
            columns.setdefault(name, []).append(cell)
    columns = {name: cells for name, cells in columns.items() if any(cell is not None for cell in cells)}
    return [*columns], [*map(list, zip(*columns.values()))]


def main(argv: list[str] | None = None) -> list[EvalResult]:
    argv = sys.argv[1:] if argv is None else argv
    (args,) = parse_arguments((EvaluateArguments,), argv, prog="hfxling evaluate", description=__doc__)
    encoder = args.scorer()
    baseline = args.encoder(args.baseline) if args.baseline else None
    rows, headers, table = TASKS[args.task](args, encoder, baseline)
    path, command = Path(args.output) / "results.json", {"command": shlex.join(["hfxling", "evaluate", *argv])}
    write_results(path, rows, recipe="hfxling evaluate", settings=resolved(args), extra=command)
    print(format_table(headers, table))
    logger.info("results: %s", path)
    return rows
