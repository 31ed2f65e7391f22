"""Test of a written model on held-out text, as `hfxling fit` makes it, and the same test made again from its record."""

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

ENTRY = "test"  # entry of results.json that says what was tested on which text
ENCODER_FACTS = ("model", "revision", "prompt")  # what that entry says about the unchanged encoder
FUSED = ("fused", "finetuned_fused")
Ranks = tuple[np.ndarray, np.ndarray]  # ranks of the translations, from source to target and back


@dataclass(frozen=True)
class HeldOutTest:
    """What is tested, and on which text."""

    kind: str  # kind of the model, as in the table of `hfxling fit`
    encoder: Mapping[str, Any]  # the unchanged encoder, as arguments of `load_encoder`; {} if there is none
    pairs: Pairs  # the text
    languages: Pair  # codes of source and target
    device: str | None = None  # device of the encoder and the model

    def rank(self, folder: Path, lexical: str | Path | None = None) -> dict[str, Ranks]:
        """Ranks of the translations by the unchanged encoder, and by the model in a folder.

        `lexical` is the folder or Hub id of the lexical model whose scores are added, for a model of that kind.
        """
        systems = {}
        if self.encoder:
            systems[ENCODER] = load_encoder(**self.encoder, device=self.device)
        if self.kind == "sparse":
            systems[self.kind] = load_encoder(lexical=folder)
        else:
            # The folder may be a stranger's that is being verified: its code runs only if it is this package's own, or
            # that of an encoder that was trusted.
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
            # The way back is ranked separately, as a text may have another vector in the other role.
            ranks.append(gold_ranks(*vectors, method=encoder.method)[0])
        return tuple(ranks)

    def results(self, ranks: Mapping[str, Ranks], *, seed: int) -> list[EvalResult]:
        """P@1 in both directions; that of the model with a paired test against the unchanged encoder."""
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
        """The entry of results.json from which the test can be repeated; `source` is where the text was read."""
        encoder = {}
        for name in ENCODER_FACTS:
            if name in self.encoder:
                value = self.encoder[name]
                encoder[name] = value if value is None else str(value)
        return {"source": source, "kind": self.kind, "encoder": encoder}


def read_test(test: Sequence[Any], languages: Pair) -> Pairs:
    """Test pairs, without repetitions; `test` is one source of both sides, or both sides."""
    pairs = read_pairs(*test, languages=languages)
    return pairs.at(distinct_tests(pairs.source, pairs.target))


def leave_out(corpus: Corpus, test: Pairs) -> int:
    """Remove training pairs that the test text contains; returns how many there were."""
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
    """The result rows of the test in a record, measured on a folder; [] if it had none, or if a model is missing.

    Removes from the corpus the training pairs that the test text contains.
    """
    entry = record.get(ENTRY)
    if entry is None or entry["source"] is None:
        return []
    (languages,) = corpus.language_pairs
    pairs = read_test([entry["source"]], languages)
    leave_out(corpus, pairs)
    if entry["kind"] is None:  # links that were tested together with a model, not alone
        return []
    encoder = {}
    for name in ENCODER_FACTS:  # no other option of `load_encoder`, as anybody may have written the record
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
    """The result rows of the method and of the test of `hfxling fit` for the folder, and the text that was read.

    `record` is the content of the folder's results.json; relative paths of text in it begin at `root`. Code of the
    folder or its encoder that is not this package's own runs only with `trust_remote_code`.

    Raises:
        ValueError: a method or settings that this hfxling does not know, text that is malformed or of none of the
            pairs, or weights that do not fit.
        FileNotFoundError: missing text.
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
