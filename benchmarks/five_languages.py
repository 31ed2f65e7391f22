"""One model for Lao, Thai, Vietnamese, Indonesian and Chinese, or one for each language pair?

python recipes/study.py --config recipes/configs/dap/studies/five.yaml
python benchmarks/five_languages.py --data ../shared/data --models outputs/dap_five

Everything learns from lines 1 to 1543 of NTREX, each language's with Chinese, and finds translations among lines 1544
to 1997: links of all four pairs at once or of one pair, and the encoders that the study fine-tuned in the same way.
Fused scores have even weights here, so that neither is better tuned. Nothing for five languages has learnt from a
Lao-Thai pair; the links of that pair have. P@1 by cosine or inner product, both directions, ties being misses; `paired`
is the test against the model of the one pair.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import numpy as np
import torch
from encoders import weights_note
from harness import parser, report_rows
from ntrex import LINES, read_text

from hfxling import LexicalModel, fit_lexical, load_encoder, save_lexical
from hfxling.console import run as run_recipe
from hfxling.data.sources import Pair, name_of_pair
from hfxling.encoders.fusion import ROLES, Fusion, Vectors, fit_fusion, pool_rows
from hfxling.evaluation.averages import mean_result
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import gold_ranks, hits_at

TITLE = "P@1 of one model for five languages, and of one for each pair: NTREX, 454 lines"
PAIRS = (("vi", "zh"), ("lo", "zh"), ("th", "zh"), ("id", "zh"))
WITHOUT_PAIRS = ("lo", "th")
ONE, FIVE = "one pair", "five languages"
KINDS = ("static", "sparse", "fine-tuned", "fused with the fine-tuned")
LABELS = [f"{kind}, {scope}" for kind in KINDS for scope in (ONE, FIVE)]
Texts = Mapping[str, Sequence[str]]  # all lines, by language
Ranks = tuple[np.ndarray, np.ndarray]  # of the translations, source to target and back


class Memory:
    """An encoder that encodes a text once."""

    def __init__(self, folder: Path):
        self._encoder, self._vectors = load_encoder(folder), {}

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """(N, D) vectors."""
        missing = [text for text in texts if text not in self._vectors]
        if missing:
            self._vectors |= zip(missing, self._encoder.encode(missing, progress=False))
        return np.stack([self._vectors[text] for text in texts])


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "five_languages")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/")
    options.add_argument("--models", default="outputs/dap_five", help="folder of the study's models")
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    languages = sorted({language for pair in PAIRS for language in pair})
    lines = read_text(f"{args.data}/ntrex", "-".join(languages))
    at_once = fit_lexical({pair: _part(lines, pair, slice(LINES)) for pair in PAIRS}, progress=False)
    for_all = Memory(Path(args.models, "all at once-0", "model"))
    results = []
    for pair in (*PAIRS, WITHOUT_PAIRS):
        own_links = fit_lexical(*_part(lines, pair, slice(LINES)), pair, progress=False)
        own_folder = Path(args.models, f"{name_of_pair(pair)} alone-0", "model")
        alone = dict(ranked(own_links, Memory(own_folder) if own_folder.is_dir() else None, lines, pair))
        for kind, ranks in ranked(at_once, for_all, lines, pair):
            if kind in alone:
                results += rows_of(alone[kind], f"{kind}, {ONE}", pair)
            results += rows_of(ranks, f"{kind}, {FIVE}", pair, alone.get(kind))
    settings = vars(args) | {"name": "five_languages", "weights": weights_note("me5-small")}
    return report_rows("five_languages", results, settings, title=TITLE, labels=LABELS, metrics=["P@1"])


def ranked(links: LexicalModel, dense: Memory | None, lines: Texts, pair: Pair) -> Iterator[tuple[str, Ranks]]:
    """What every kind of vectors finds among the test lines; with an encoder also its own, and both fused."""
    test = dict(zip(pair, _part(lines, pair, slice(LINES, None))))
    with tempfile.TemporaryDirectory() as folder:
        save_lexical(links, Path(folder, "links"))
        static = load_encoder(Path(folder, "links"))
        vectors = {language: static.encode(test[language], language, progress=False) for language in pair}
    yield "static", _both_ways(vectors, vectors, pair, "cosine")
    sparse = {}
    for language in pair:
        for role in ROLES:
            sparse[language, role] = links.encode(test[language], language, role=role)
    queries, documents = ({language: sparse[language, role] for language in pair} for role in ROLES)
    yield "sparse", _both_ways(queries, documents, pair, "dot")
    if dense is None:
        return
    vectors = {language: dense(test[language]) for language in pair}
    yield "fine-tuned", _both_ways(vectors, vectors, pair, "cosine")
    fusion = even_fusion(links, dense, dict(zip(pair, _part(lines, pair, slice(LINES)))))
    queries, documents = (
        {language: fusion.vectors(vectors[language], sparse[language, role], language, role) for language in pair}
        for role in ROLES
    )
    yield "fused with the fine-tuned", _both_ways(queries, documents, pair, "dot")


def even_fusion(links: LexicalModel, dense: Memory, train: Texts) -> Fusion:
    """Both scores at unit variance among training lines, added up."""
    pools: dict[tuple[str, str], Vectors] = {}
    for language, texts in train.items():
        drawn = [texts[row] for row in pool_rows(len(texts))]
        for role in ROLES:
            pools[language, role] = dense(drawn), links.encode(drawn, language, role=role)
    source, target = train
    fold = []
    for query, document in ((source, target), (target, source)):
        sides = pools[query, "query"], pools[document, "document"]
        fold.append((*sides, sides))
    return replace(fit_fusion([fold], pools, lexical="", languages=(source, target)), weight=0.5)


def rows_of(ranks: Ranks, label: str, pair: Pair, of_one_pair: Ranks | None = None) -> list[EvalResult]:
    """P@1 of both directions, with the paired test against the model of the one pair where there is one."""
    rows = []
    for way, languages in enumerate((pair, pair[::-1])):
        baseline = None if of_one_pair is None else hits_at(of_one_pair[way], 1)
        rows.append(
            mean_result(
                "P@1",
                hits_at(ranks[way], 1),
                baseline=baseline,
                dataset=f"NTREX {name_of_pair(pair)}",
                split="test",
                direction="->".join(languages),
                settings={"stage": "after", "row": label},
            )
        )
    return rows


def _both_ways(queries: Mapping, documents: Mapping, pair: Pair, method: str) -> Ranks:
    source, target = pair
    there, _ = gold_ranks(queries[source], documents[target], method=method)
    back, _ = gold_ranks(queries[target], documents[source], method=method)
    return there, back


def _part(lines: Texts, pair: Pair, part: slice) -> tuple[Sequence[str], Sequence[str]]:
    return tuple(lines[language][part] for language in pair)


if __name__ == "__main__":
    run_recipe(main)
