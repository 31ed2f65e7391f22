"""A written model tested on text that nothing learnt from, as `hfxling fit` does, and measured again by its record."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from transformers import TrainingArguments

from hfxling.data.corpus import Corpus
from hfxling.data.leakage import drop_leaks
from hfxling.data.pairs import Pairs, read_pairs
from hfxling.data.sources import Pair
from hfxling.data.warn import distinct_tests
from hfxling.encoders.fusion import ROLES
from hfxling.encoders.identity import model_name
from hfxling.encoders.loading import load_encoder
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import ENCODER, before_after_results, gold_ranks, hits_at
from hfxling.files import content_hash
from hfxling.hub.checks import code_faults, folder_contents

from . import method

ENTRY = "test"  # of results.json, which says what was tested on which text
ENCODER_FACTS = ("model", "revision", "prompt")  # what it says of the encoder as it came
FUSED = ("fused", "finetuned_fused")
Ranks = tuple[np.ndarray, np.ndarray]  # of the translations, from source to target and back


@dataclass(frozen=True)
class HeldOutTest:
    """What is tested, and on which text."""

    kind: str  # of the model, as it is called in the table of `hfxling fit`
    encoder: Mapping[str, Any]  # the model as it came, as `load_encoder` takes it; {} where there is none
    pairs: Pairs  # the text
    languages: Pair  # of source and target
    device: str | None = None  # of the encoder and the model

    def rank(self, folder: Path, lexical: str | Path | None = None) -> dict[str, Ranks]:
        """Ranks of the translations by the encoder as it came and by the model in a folder.

        `lexical` is the folder or Hub id of the lexical model that its scores are added to, where that is its kind.
        """
        systems = {}
        if self.encoder:
            systems[ENCODER] = load_encoder(**self.encoder, device=self.device)
        if self.kind == "sparse":
            systems[self.kind] = load_encoder(lexical=folder)
        else:
            # The folder may be a stranger's that is verified: its code runs only where it is this package's own, or the
            # encoder's that was trusted.
            is_trusted = self.encoder.get("trust_remote_code") or not code_faults(folder_contents(folder))
            systems[self.kind] = load_encoder(
                folder, lexical if self.kind in FUSED else None, device=self.device, trust_remote_code=is_trusted
            )
        return {name: self._rank(encoder) for name, encoder in systems.items()}

    def _rank(self, encoder) -> Ranks:
        """Ranks by one encoder, each sentence read in its language and its role."""
        sides = self.pairs.source, self.pairs.target
        ranks = []
        for direction in ((0, 1), (1, 0)):
            vectors = []
            for side, role in zip(direction, ROLES):
                language = self.languages[side] if encoder.routes else None
                vectors.append(encoder.encode(sides[side], language, role))
            # The way back is ranked apart: a text's vector may be another one in the other role.
            ranks.append(gold_ranks(*vectors, method=encoder.method)[0])
        return tuple(ranks)

    def results(self, ranks: Mapping[str, Ranks], *, seed: int) -> list[EvalResult]:
        """P@1 of both directions, of the model with its paired test against the encoder as it came."""
        return before_after_results(
            {name: [hits_at(way, 1) for way in ways] for name, ways in ranks.items()},
            self.languages,
            dataset=self.pairs.name,
            revision=content_hash(self.pairs.source, self.pairs.target),
            seed=seed,
            split="test",
            model=model_name(str(self.encoder["model"])) if self.encoder else "links",
        )

    def entry(self, source: str | None) -> dict[str, Any]:
        """What results.json keeps, by which the test can be done again; `source` is where the text was read."""
        encoder = {}
        for name in ENCODER_FACTS:
            if name in self.encoder:
                value = self.encoder[name]
                encoder[name] = value if value is None else str(value)
        return {"source": source, "kind": self.kind, "encoder": encoder}


def read_test(test: Sequence[Any], languages: Pair) -> Pairs:
    """Test pairs, each once; `test` is one source of both sides, or both sides."""
    pairs = read_pairs(*test, languages=languages)
    return pairs.at(distinct_tests(pairs.source, pairs.target))


def leave_out(corpus: Corpus, test: Pairs) -> int:
    """Take the training pairs out that the test text contains; gives how many these are."""
    from datasets import Dataset

    (pair,) = corpus.pairs
    kept, leaks = drop_leaks(pair.train, Dataset.from_dict({"source": test.source, "target": test.target}))
    pair.train, pair.leaks = kept, len(leaks)
    return pair.leaks


def tested_again(
    record: Mapping,
    folder: Path,
    corpus: Corpus,
    *,
    seed: int,
    device: str | None,
    trust_remote_code: bool,
) -> list[EvalResult]:
    """The rows of the test in a record, measured on a folder; [] where there was none of it, or a model is not at hand.

    Takes the training pairs out of the corpus that the test text contains.
    """
    entry = record.get(ENTRY)
    if entry is None or entry["source"] is None:
        return []
    (languages,) = corpus.language_pairs
    pairs = read_test([entry["source"]], languages)
    leave_out(corpus, pairs)
    if entry["kind"] is None:  # the links beside a model, which were tested with it and not alone
        return []
    encoder = {}
    for name in ENCODER_FACTS:  # and no other option of `load_encoder`: anybody may have written it
        if name in entry["encoder"]:
            encoder[name] = entry["encoder"][name]
    if encoder:
        encoder["trust_remote_code"] = trust_remote_code
    test = HeldOutTest(entry["kind"], encoder, pairs, languages, device)
    lexical = folder.parent / "lexical" / "model"  # where `hfxling fit` writes it
    if not lexical.is_dir():
        lexical = record["card"].get("lexical")
    try:
        ranks = test.rank(folder, lexical)
    except FileNotFoundError:
        return []
    return test.results(ranks, seed=seed)


def measured_again(
    record: Mapping,
    folder: Path,
    *,
    root: Path,
    cache_dir: Path,
    device: str | None = None,
    trust_remote_code: bool = False,
) -> tuple[list[EvalResult], Corpus]:
    """The rows that the method and the test of `hfxling fit` give for the folder, and the text that was read.

    The relative paths of text in `record`, the content of the folder's results.json, begin at `root`. Code that
    is not this package's own, the folder's or its encoder's, runs with `trust_remote_code` alone.

    Raises:
        ValueError: a method, or settings, that this hfxling does not know; text that is malformed or of none of the
            pairs; weights that do not fit.
        FileNotFoundError: text that is not there.
    """
    package, settings = method(record["card"]["method"]), record.get("settings", {})
    names = package.Arguments.__dataclass_fields__
    options = {name: value for name, value in settings.items() if name in names}
    if "cache_dir" in names:
        options["cache_dir"] = str(cache_dir.resolve())
    folder = folder.resolve()
    with TemporaryDirectory(prefix="hfxling-") as scratch, contextlib.chdir(root):
        training = {"seed": settings.get("seed", 42), "use_cpu": device == "cpu"}
        recipe = package.Arguments(**options)
        run, corpus = package.measure(recipe, TrainingArguments(output_dir=scratch, **training), folder)
        results = run.all_results()
        options = {"seed": training["seed"], "device": device, "trust_remote_code": trust_remote_code}
        return results + tested_again(record, folder, corpus, **options), corpus
