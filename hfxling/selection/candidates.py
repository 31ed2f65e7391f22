"""The models that compete in `select`: all learn from the same pairs and rank those that were left out."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import shutil
import time
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from transformers import AutoConfig, AutoModel, TrainingArguments

from hfxling.arguments import narrowed
from hfxling.data.corpus import Corpus
from hfxling.data.parallel import sides_of
from hfxling.encoders.dense import SentenceEncoder, runs_code
from hfxling.encoders.fusion import ROLES, Fusion, Pools, fit_fusion, pool_rows, stored
from hfxling.encoders.identity import identity
from hfxling.encoders.sparse import LexicalEncoder
from hfxling.evaluation.retrieval import gold_ranks, hits_at
from hfxling.evaluation.significance import share_interval
from hfxling.files import atomic_path, content_hash, weights_hash
from hfxling.hub.writing import widen_tokenizer_config
from hfxling.methods import dap, lexical, siamese
from hfxling.methods.appended import append_head
from hfxling.methods.dap.finetune import EPOCHS, Finetuned, TooLong, finetune, schedule, training_facts
from hfxling.methods.frozen import PairVectors
from hfxling.methods.lexical.data import Prepared as PreparedLinks
from hfxling.methods.lexical.data import link_views, word_encoder
from hfxling.methods.lexical.evaluate import rank as rank_links
from hfxling.methods.lexical.train import fit as fit_links
from hfxling.methods.publishing import Run
from hfxling.methods.siamese.arguments import OWN
from hfxling.methods.siamese.choice import INFONCE, TIED, fit_form
from hfxling.methods.siamese.data import Prepared as PreparedVectors
from hfxling.methods.siamese.data import encode
from hfxling.methods.siamese.layers import choose_layers
from hfxling.methods.siamese.train import head_inputs, infonce_maps, new_head
from hfxling.missing import one_line_where_missing
from hfxling.models.modeling_lexical import LexicalModel
from hfxling.models.stock import with_names_of_all_versions
from hfxling.progress import bar
from hfxling.words.encoder import WordEncoder

logger = logging.getLogger(__name__)
# Up to this number of pairs an encoder's help in learning links is tried unasked (with more it costs minutes), and
# centred vectors, too, are fused with the links, as a head may learn nothing from few pairs that helps the links.
FEW = 500
Ranks = tuple[np.ndarray, np.ndarray]  # ranks of the left-out pairs, from source to target and back


@dataclass
class Candidate:
    """One of the models that compete, and its results."""

    name: str  # encoder, centred, head, layers, static, sparse, fused, finetuned or finetuned_fused
    needs_language: bool = False  # whether users have to give the language of a text
    needs_remote_code: bool = False  # whether users without hfxling have to trust code in the folder
    needs_hfxling: bool = False  # whether only hfxling can use it
    megabytes: float = 0.0  # of the weights, the encoder's included
    ranks: dict[int, Ranks] = field(default_factory=dict)  # by fold, ranks of left-out pairs' translations; 1 is best
    cpu_s: list[float] = field(default_factory=list)  # of every fold's fit, without those of the encoder as it came
    left_out: str = ""  # why it does not compete; "" if it does

    def hits(self, direction: int | None = None, folds: Iterable[int] | None = None) -> np.ndarray:
        """(N,) 100 for every pair found first, else 0, from source to target (0) or back (1); by default their mean.

        By default these are the pairs of all folds that it competed in. The two directions of a pair are not two
        samples: a pair that is hard to find one way is mostly hard to find the other way, too.
        """
        directions = (0, 1) if direction is None else (direction,)
        hits = []
        for fold in self.ranks if folds is None else folds:
            hits.append(np.mean([hits_at(self.ranks[fold][each], 1) for each in directions], axis=0))
        return np.concatenate(hits)

    def lead(self, other: Candidate) -> np.ndarray:
        """(N,) by how much its hits exceed another candidate's, for each pair of the folds that both competed in."""
        folds = [fold for fold in self.ranks if fold in other.ranks]
        return self.hits(folds=folds) - other.hits(folds=folds)

    @property
    def precision(self) -> float:
        """P@1 in %, over both directions; the winner is chosen by it."""
        return float(self.hits().mean())

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of `precision`, over left-out pairs."""
        return share_interval(self.hits())

    @property
    def needs(self) -> str:
        """The three `needs_...` in words."""
        needs = {
            "the texts' language": self.needs_language,
            "trust_remote_code": self.needs_remote_code,
            "hfxling": self.needs_hfxling,
        }
        return ", ".join(name for name, is_needed in needs.items() if is_needed) or "nothing"


@dataclass(frozen=True)
class TrainingText:
    """The sentence pairs that everything learns from."""

    corpus: Corpus

    @property
    def languages(self) -> tuple[str, str]:
        """Language codes of source and target."""
        return self.corpus.pairs[0].languages

    def __len__(self) -> int:
        return len(self.corpus.pairs[0].train)

    def texts(self, side: int, rows: np.ndarray | None = None) -> list[str]:
        """The texts of the source (0) or the target (1), all or some rows."""
        texts = self._sides[side]
        return texts if rows is None else [texts[row] for row in rows]

    @cached_property
    def _sides(self) -> tuple[list[str], list[str]]:
        return sides_of(self.corpus.pairs[0].train)

    def part(self, rows: np.ndarray) -> Corpus:
        """Some of the pairs as a corpus."""
        (pair,) = self.corpus.pairs
        return Corpus([replace(pair, train=pair.train.select(rows))], self.corpus.name)


class Encoder:
    """The frozen encoder as it came, which everything else has to beat."""

    def __init__(self, sides: Sequence[np.ndarray], megabytes: float, *, needs_remote_code: bool = False):
        """`sides` are its vectors of the source and of the target."""
        self.candidate = Candidate("encoder", needs_remote_code=needs_remote_code, megabytes=megabytes)
        self.sides = sides

    def compete(self, fold: int, held: np.ndarray) -> None:
        """Rank the left-out pairs."""
        source, target = self.sides[0][held], self.sides[1][held]
        self.candidate.ranks[fold] = gold_ranks(source, target)
        self.candidate.cpu_s.append(0.0)


class Head:
    """A linear head on one layer of the encoder or on several: one map for each language, or one for both.

    It is fitted on all pairs first, which decides its form and settings; each fold fits the same form anew.
    """

    method = "siamese"

    def __init__(
        self,
        name: str,
        recipe: siamese.Arguments,
        training_args: TrainingArguments,
        prepared: PreparedVectors | TrainingText,
        sides: Sequence[np.ndarray],
        run: Run,
        megabytes: float,
    ):
        """`sides` are the vectors that it maps, `run` is the fit on all of them."""
        self.recipe, self.training_args, self.prepared = recipe, training_args, prepared
        self.sides, self.run = sides, run
        self.settings = narrowed(siamese.HeadSettings, recipe)
        self.form = run.reached.get("form", recipe.fit)
        self.candidate = Candidate(
            name,
            needs_language=self.form == TIED or (self.form == INFONCE and not recipe.one_map),
            # Vectors of several layers need a module that sentence-transformers does not have.
            needs_remote_code=recipe.layers is not None or run.reached.get("runs_code", False),
            megabytes=megabytes,
        )

    def compete(self, fold: int, kept: np.ndarray, held: np.ndarray) -> None:
        """Fit the head on some pairs, and rank the others."""
        start = time.process_time()
        self.fit(kept)
        self.candidate.cpu_s.append(time.process_time() - start)
        self.candidate.ranks[fold] = gold_ranks(self.embed(0, held), self.embed(1, held))

    def fit(self, rows: np.ndarray) -> None:
        """Fit the form that was chosen on some of the pairs."""
        sides = {lang: self._vectors(side, rows) for side, lang in enumerate(self.recipe.languages)}
        self.inputs = new_head(self.settings, sides, self.recipe.layers)
        source, target = head_inputs(self.inputs, sides)
        trained = partial(infonce_maps, self.settings, self.training_args)
        doubles = source.astype(np.float64), target.astype(np.float64)
        self.maps = fit_form(self.form, self.run.reached, *doubles, trained)

    def fit_all(self) -> Run:
        """The head that is written, fitted on all pairs."""
        return self.run

    def embed(self, side: int, rows: np.ndarray) -> np.ndarray:
        """(N, D) vectors of some texts of a side, by the head that was fitted last."""
        (ready,) = head_inputs(self.inputs, {self.recipe.languages[side]: self._vectors(side, rows)})
        return self.maps[side](ready.astype(np.float64))

    def _vectors(self, side: int, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.sides[side])[rows]


class Links:
    """Word links counted in the pairs: `sparse` vectors, and `static` word vectors made from the same links."""

    method = "lexical"

    def __init__(
        self,
        recipe: lexical.Arguments,
        text: TrainingText,
        training_args: TrainingArguments,
        cache_dir: str | Path,
        prompt: str | None = None,
        device: str | None = None,
    ):
        self.recipe, self.text, self.training_args, self.cache_dir = recipe, text, training_args, Path(cache_dir)
        self.prompt, self.device = prompt, device
        self.kept: list[Path] = []  # folders from which a stopped run continues
        self.settings = narrowed(lexical.LinkSettings, recipe)
        self.static = Candidate("static")
        self.sparse = Candidate("sparse", needs_language=True, needs_remote_code=True)

    @cached_property
    def encoder(self) -> WordEncoder | None:
        """The encoder whose word similarities help to learn links."""
        if self.recipe.encoder is None:
            return None
        return word_encoder(
            self.recipe.encoder, self.recipe.encoder_revision, self.text.corpus, prompt=self.prompt, device=self.device
        )

    def can_be_read(self) -> bool:
        """Whether the helping encoder can read the text; if not, the reason is logged."""
        try:
            return self.encoder is not None
        except ValueError as error:
            logger.warning("word links are learnt without the model: %s", error)
            return False

    def compete(self, fold: int, kept: np.ndarray, held: np.ndarray) -> None:
        """Count the links of some pairs, and rank the others, or read what an earlier run has counted."""
        facts = {"seed": self.training_args.seed, "settings": asdict(self.settings), "languages": self.text.languages}
        if self.recipe.encoder is not None:
            facts["encoder"] = [identity(self.recipe.encoder, self.recipe.encoder_revision), self.prompt]
        for name, rows in (("kept", kept), ("held", held)):
            facts[name] = content_hash(self.text.texts(0, rows), self.text.texts(1, rows))
        folder = self.cache_dir / digest_of(facts)
        self.kept.append(folder)
        self.model, outcome = self._fitted(folder, kept, held)
        for candidate in (self.static, self.sparse):
            ranks = outcome["ranks"][candidate.name]
            candidate.ranks[fold] = tuple(map(np.array, ranks))
            candidate.cpu_s.append(outcome["cpu_s"])
            candidate.megabytes = outcome["megabytes"][candidate.name]
        self.static.needs_language = outcome["static_needs_language"]

    def _fitted(self, folder: Path, kept: np.ndarray, held: np.ndarray) -> tuple[LexicalModel, dict]:
        """The links of some pairs and how they rank the others: read from the folder, or computed and written there.

        Another run on the same pairs may remove the folder at any time, when it ends.
        """
        while True:
            if not folder.is_dir():
                self._fit(folder, kept, held)
            try:
                outcome = json.loads((folder / "outcome.json").read_text(encoding="utf-8"))
                return LexicalModel.from_pretrained(folder), outcome
            except (OSError, ValueError):
                if folder.is_dir():
                    raise

    def _fit(self, folder: Path, kept: np.ndarray, held: np.ndarray) -> None:
        """Write the links of some pairs, and how they rank the others."""
        start = time.process_time()
        views = link_views(self.text.part(kept), self.settings, self.encoder)
        model = fit_links(views, self.settings, seed=self.training_args.seed)
        seconds = time.process_time() - start
        sides = self.text.texts(0, held), self.text.texts(1, held)
        # Both directions by sparse vectors, then both by static ones.
        ranks = [ranking.ranks.tolist() for ranking in rank_links(model, sides, self.text.languages)]
        tables = {id(table): table.nbytes for table in model.static.values()}  # languages may share one
        links = sum(tensor.nbytes for tensor in model.state_dict().values())
        outcome = {
            "ranks": {"sparse": ranks[:2], "static": ranks[2:]},
            "cpu_s": seconds,
            "megabytes": {"sparse": links / 1e6, "static": sum(tables.values()) / 1e6},
            "static_needs_language": not views[0].is_shared,
        }
        with atomic_path(folder) as scratch:
            model.save_pretrained(scratch)
            (scratch / "outcome.json").write_text(json.dumps(outcome), encoding="utf-8")

    def fit_all(self) -> Run:
        """The links that are written, of all pairs."""
        self.prepared = PreparedLinks(self.text.corpus, link_views(self.text.corpus, self.settings, self.encoder))
        return lexical.run(self.recipe, self.training_args, self.prepared)


def better_links(alone: Links, helped: Links, held: np.ndarray) -> Links:
    """The links that find more of the left-out pairs: those counted alone, or with the help of an encoder.

    An encoder that cannot read the text is no help.
    """
    if not helped.can_be_read():
        return alone
    kept = np.setdiff1d(np.arange(len(alone.text)), held)
    precision_alone, precision_helped = (precision_in_first_fold(links, kept, held) for links in (alone, helped))
    chosen, other = (helped, alone) if precision_helped > precision_alone else (alone, helped)
    for folder in other.kept:
        shutil.rmtree(folder, ignore_errors=True)
    return chosen


def precision_in_first_fold(links: Links, kept: np.ndarray, held: np.ndarray) -> float:
    """Sum of the P@1 of static and sparse vectors in the first fold; both compete again in the contest."""
    links.compete(0, kept, held)
    precision = links.static.precision + links.sparse.precision
    for candidate in (links.static, links.sparse):
        candidate.ranks.clear()
        candidate.cpu_s.clear()
    return precision


class Finetuning:
    """The encoder itself, trained further on the pairs by translation ranking; it competes in one fold only."""

    method = "dap"

    def __init__(
        self,
        recipe: dap.Arguments,
        text: TrainingText,
        clock: Clock,
        seed: int,
        device: str | None,
        cache_dir: str | Path,
    ):
        self.recipe, self.text, self.clock, self.seed, self.device = recipe, text, clock, seed, device
        self.prepared = text  # publishing and the card of DAP read its corpus
        self.cache_dir = Path(cache_dir)
        self.kept: list[Path] = []  # files from which a stopped run continues
        weights = _empty_transformer(recipe.base_model, recipe.base_revision)
        self.candidate = Candidate("finetuned", megabytes=_megabytes(weights))
        self.model: Finetuned | None = None  # trained last
        self.final: Finetuned | None = None  # trained on all pairs

    def compete(self, fold: int, kept: np.ndarray, held: np.ndarray) -> None:
        """Train on some pairs, for as many epochs as there is time for in both trainings, and rank the others.

        The second training is the one on all pairs, whose model may be written.
        """
        start = time.process_time()
        held_out = self.text.texts(0, held), self.text.texts(1, held)
        runs = 1 + len(self.text) / len(kept)
        self.model, epochs = None, EPOCHS
        while self.model is None:
            try:
                self.model = self._train(self.text.part(kept), epochs, held_out, time_left=self.clock.left, runs=runs)
            except TooLong as needed:
                possible = int(epochs * self.clock.left() / needed.seconds)
                if possible < 1:
                    minutes = math.ceil((self.clock.spent() + needed.seconds / epochs) / 60)
                    self.candidate.left_out = f"it would take about {minutes} minutes in all (--minutes {minutes})"
                    logger.warning("fine-tuning does not compete: %s", self.candidate.left_out)
                    return
                minutes = math.ceil((self.clock.spent() + needed.seconds * EPOCHS / epochs) / 60)
                logger.warning(
                    "there is only time for %d of %d epochs of fine-tuning (for all: --minutes %d)",
                    possible,
                    EPOCHS,
                    minutes,
                )
                epochs = possible
        self.candidate.cpu_s.append(time.process_time() - start)
        self.candidate.ranks[fold] = self.model.ranks

    def embed(self, side: int, rows: np.ndarray) -> np.ndarray:
        """(N, D) vectors of some texts of a side, by the model that was trained last."""
        return self.model.encode(self.text.texts(side, rows))

    def fit_all(self) -> Run:
        """The encoder that is written, trained on all pairs for the best number of epochs."""
        if self.final is None:
            self.final = self._train(self.text.corpus, self.model.epochs)
        final = self.final
        return Run([], {"epochs": final.epochs, "pairs": len(self.text)}, final.write)

    def _train(self, corpus: Corpus, epochs: int, held_out=None, **limits) -> Finetuned:
        pairs = len(corpus.pairs[0].train)
        with TemporaryDirectory(prefix="hfxling-") as folder:  # the Trainer wants one
            self.training_args = schedule(
                pairs, folder, is_tested=held_out is not None, epochs=epochs, seed=self.seed, device=self.device
            )
            facts = training_facts(self.recipe, self.training_args, corpus, held_out)
            file = self.cache_dir / f"{digest_of(facts)}.safetensors"
            self.kept.append(file)
            return finetune(self.recipe, self.training_args, corpus, held_out, kept=file, **limits)


class Fused:
    """The sum of the scores of dense vectors and of sparse links, with a weight chosen on the left-out pairs."""

    def __init__(self, name: str, dense: Head | Finetuning, links: Links):
        self.dense, self.links, self.text = dense, links, links.text
        self.candidate = Candidate(
            name,
            needs_language=True,
            needs_remote_code=dense.candidate.needs_remote_code,
            needs_hfxling=True,
        )
        self.folds: dict[int, tuple[Pools, Pools]] = {}
        self.fusion: Fusion | None = None

    def compete(self, fold: int, kept: np.ndarray, held: np.ndarray) -> None:
        """Keep the left-out pairs' vectors, by the dense model and the links that were fitted last."""
        if fold not in self.dense.candidate.ranks:
            return
        pool = kept[pool_rows(len(kept))]
        models = self.dense.embed, self.links.model.encode
        self.folds[fold] = self._in_both_roles(held, *models), self._in_both_roles(pool, *models)

    def _in_both_roles(self, rows: np.ndarray, embed: Callable, encode_sparse: Callable) -> Pools:
        """Dense and sparse vectors of some pairs, by language and role."""
        pools = {}
        for side, lang in enumerate(self.text.languages):
            dense, texts = embed(side, rows), self.text.texts(side, rows)
            for role in ROLES:
                pools[lang, role] = dense, encode_sparse(texts, lang, role)
        return pools

    def finish(self) -> None:
        """Choose the weight, and rank the left-out pairs of all folds by the sum."""
        if not self.folds:
            self.candidate.left_out = self.dense.candidate.left_out
            return
        languages = self.text.languages
        ways = [tuple(zip(pair, ROLES)) for pair in (languages, languages[::-1])]
        folds = []
        for held, pool in self.folds.values():
            both_ways = []
            for query, document in ways:
                both_ways.append((held[query], held[document], (pool[query], pool[document])))
            folds.append(both_ways)
        _, pool = next(iter(self.folds.values()))
        self.fusion = fit_fusion(folds, pool, lexical="", languages=languages)
        for fold, (held, pool) in self.folds.items():
            fusion = replace(self.fusion, pools=stored(pool))
            ranks = []
            for query, document in ways:
                queries = fusion.vectors(*held[query], *query)
                documents = fusion.vectors(*held[document], *document)
                ranks.append(gold_ranks(queries, documents, method="dot")[0])
            self.candidate.ranks[fold] = tuple(ranks)
        dense, sparse = self.dense.candidate, self.links.sparse
        # Fine-tuning competes only in the first fold, after which zip stops.
        self.candidate.cpu_s = [of_dense + of_sparse for of_dense, of_sparse in zip(dense.cpu_s, sparse.cpu_s)]
        self.candidate.megabytes = dense.megabytes + sparse.megabytes

    def writer(self, write: Callable[[Path], None], links: Path) -> Callable[[Path], None]:
        """A function that writes the dense encoder's folder, and in it how its scores are added to the links'."""

        def written(folder: Path) -> None:
            write(folder)
            dense, sparse = SentenceEncoder(str(folder), trust_remote_code=True), LexicalEncoder(str(links))

            def embed(side: int, rows: np.ndarray) -> np.ndarray:
                # a head depends on the language, not on the role
                language = self.text.languages[side] if dense.routes else None
                return dense.encode(self.text.texts(side, rows), language)

            pools = self._in_both_roles(pool_rows(len(self.text)), embed, sparse.encode)
            replace(self.fusion, pools=stored(pools), lexical=weights_hash(links)).save(folder)

        return written


@dataclass
class Competitors:
    """All that competes; None or empty for what was not asked for."""

    links: Links | None = None
    links_in_every_fold: bool = True  # False if only `finetuned_fused`, which has one fold, needs them
    encoder: Encoder | None = None
    heads: dict[str, Head] = field(default_factory=dict)
    fused_heads: list[Fused] = field(default_factory=list)  # each head with the links
    finetuning: Finetuning | None = None
    finetuned_fused: Fused | None = None

    @property
    def fused(self) -> Fused | None:
        """The best of `fused_heads` after all folds; of equal ones the first, which is the simplest."""
        return max(self.fused_heads, key=lambda fused: fused.candidate.precision, default=None)

    def fuse_heads(self) -> None:
        """Let every head compete fused with the links, too; centred vectors only with few pairs."""
        for name, head in self.heads.items():
            if name != "centred" or len(self.links.text) <= FEW:
                self.fused_heads.append(Fused("fused", head, self.links))

    def candidates(self) -> list[Candidate]:
        """All that competed."""
        competed = []
        if self.encoder is not None:
            competed.append(self.encoder.candidate)
        competed += [head.candidate for head in self.heads.values()]
        if self.links is not None:
            competed += [self.links.static, self.links.sparse]
        for each in (self.fused, self.finetuning, self.finetuned_fused):
            if each is not None and not each.candidate.left_out:
                competed.append(each.candidate)
        return competed

    def compete(self, folds: Sequence[np.ndarray], count: int) -> None:
        """Leave out each fold of the `count` pairs in turn: learn from the others, rank the fold."""
        rows = np.arange(count)
        for number, held in enumerate(bar(folds, unit="fold", label="folds")):
            self._compete_once(number, np.setdiff1d(rows, held), held)
        for fused in self.fused_heads:
            fused.finish()
        if self.finetuned_fused is not None:
            self.finetuned_fused.finish()

    def _compete_once(self, fold: int, kept: np.ndarray, held: np.ndarray) -> None:
        """Let all compete in one fold, fused models after their parts, whose last fits they use."""
        if self.links is not None and (fold == 0 or self.links_in_every_fold):
            self.links.compete(fold, kept, held)
        if self.encoder is not None:
            self.encoder.compete(fold, held)
        for learner in (*self.heads.values(), *self.fused_heads):
            learner.compete(fold, kept, held)
        if self.finetuning is not None and fold == 0:  # each fold would take minutes
            self.finetuning.compete(fold, kept, held)
            if self.finetuned_fused is not None:
                self.finetuned_fused.compete(fold, kept, held)

    def forget(self) -> None:
        """Remove what was kept on disk in case the run was stopped."""
        if self.links is not None:
            for folder in self.links.kept:
                shutil.rmtree(folder, ignore_errors=True)
        if self.finetuning is not None:
            for file in self.finetuning.kept:
                file.unlink(missing_ok=True)


@dataclass(frozen=True)
class Clock:
    """The time limit."""

    minutes: float
    began: float = field(default_factory=time.monotonic)

    def spent(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.began

    def left(self) -> float:
        """Seconds that are left."""
        return 60 * self.minutes - self.spent()


def digest_of(facts: dict) -> str:
    """32 hex digits that change with any of the facts, and with the version."""
    text = json.dumps([version("hfxling"), facts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def make_links(
    recipe: lexical.Arguments,
    text: TrainingText,
    helped_by: dict[str, str | None],
    is_helped: bool | None,
    first_fold: np.ndarray,
    **options,
) -> Links:
    """The word links that compete, counted alone or with the help of an encoder; with few pairs the better ones."""
    alone = Links(recipe, text, **options)
    is_tried = is_helped is None and helped_by["encoder"] is not None and len(text) <= FEW
    if not (is_helped or is_tried):
        return alone
    helped = Links(replace(recipe, **helped_by), text, **options)
    return better_links(alone, helped, first_fold) if is_tried else helped


def make_heads(
    single: siamese.Arguments,
    wanted: Set[str],
    training_args: TrainingArguments,
    text: TrainingText,
    device: str | None,
    *,
    whole: SentenceEncoder | None,
    has_layers: bool,
) -> tuple[Encoder, dict[str, Head]]:
    """The encoder's vectors of all pairs, and the heads on them.

    `single` is the recipe of a head on the last layer, `wanted` are the names of what competes. `whole` is the encoder
    if it does more than pool its last layer: then `head` and `centred` use the vectors that it gives.
    """
    if whole is None:
        return _heads_on_layers(single, wanted, training_args, text, device)
    encoder, heads = _heads_on_own_vectors(single, wanted, training_args, text, whole)
    if has_layers and wanted & {"layers", "fused"}:
        _, on_layers = _heads_on_layers(single, {"layers"}, training_args, text, device)
        for name, head in on_layers.items():
            heads.setdefault(name, head)  # of two called `head`, the one on the encoder's own vectors stays
    return encoder, heads


def _is_centred_wanted(wanted: Set[str], text: TrainingText) -> bool:
    """Whether centred vectors compete, or are fused with the links."""
    return "centred" in wanted or ("fused" in wanted and len(text) <= FEW)


def _heads_on_own_vectors(
    single: siamese.Arguments,
    wanted: Set[str],
    training_args: TrainingArguments,
    text: TrainingText,
    encoder: SentenceEncoder,
) -> tuple[Encoder, dict[str, Head]]:
    """An encoder's sentence vectors of all pairs, whatever modules make them, and the heads on them."""
    sides, megabytes = [encoder.encode(text.texts(side)) for side in (0, 1)], _megabytes(encoder.model)
    own = replace(single, layer=OWN, pooling="mean")
    recipes = {}
    if _is_centred_wanted(wanted, text):
        recipes["centred"] = replace(own, fit="centred")
    if wanted & {"head", "fused"}:
        recipes["head"] = own
    heads = {}
    for name, recipe in recipes.items():
        run = _run_on_own_vectors(recipe, training_args, text, encoder, sides)
        heads[name] = Head(name, recipe, training_args, text, sides, run, megabytes)
    return Encoder(sides, megabytes, needs_remote_code=runs_code(encoder.model)), heads


def _run_on_own_vectors(
    recipe: siamese.Arguments,
    training_args: TrainingArguments,
    text: TrainingText,
    encoder: SentenceEncoder,
    sides: Sequence[np.ndarray],
) -> Run:
    """A head that is fitted on the vectors an encoder gives, and is appended to its modules."""
    prompt = encoder.prompt_of(None)
    vectors = PairVectors(text.languages, tuple(sides), tuple(sides), prompt=prompt)
    settings = narrowed(siamese.HeadSettings, recipe)
    head, reached = siamese.fit(vectors, text.texts(1), settings, training_args)

    def write(folder: Path) -> None:
        model = append_head(encoder.model, head, text.languages, prompt)
        model.save_pretrained(str(folder), create_model_card=False)
        with_names_of_all_versions(folder)
        if (folder / "tokenizer_config.json").is_file():  # a table of words has none
            widen_tokenizer_config(folder / "tokenizer_config.json")
        for code in folder.glob("*/*.py"):  # sentence-transformers writes a module's code beside it, and reads it here
            code.rename(folder / code.name)

    facts = {"fit": recipe.fit, "pairs": len(text)}
    if runs_code(encoder.model):
        facts["runs_code"] = True
    return Run([], facts | reached, write)


def _heads_on_layers(
    single: siamese.Arguments,
    wanted: Set[str],
    training_args: TrainingArguments,
    text: TrainingText,
    device: str | None,
) -> tuple[Encoder, dict[str, Head]]:
    """A transformer's pooled last layer for all pairs, and the heads on one of its layers and on several."""
    recipes = {}
    if _is_centred_wanted(wanted, text):
        recipes["centred"] = replace(single, fit="centred")
    if wanted & {"head", "layers", "fused"}:
        several = replace(single, layer="auto", fit="auto" if single.one_map else "tied")
        vectors = encode([single, several], text.corpus, device)
        choice = choose_layers(several, vectors, training_args.seed)
        several = replace(several, layer=choice["layer"])
        has_several = several.layers is not None and wanted & {"layers", "fused"}
        if wanted & {"head", "fused"} or not has_several:  # also if only `layers` was wanted and one layer is best
            recipes["head"] = replace(single, layer=choice["single_layer"])
        if has_several:
            recipes["layers"] = several
    else:
        vectors = encode([single], text.corpus, device)
    megabytes = _megabytes(_empty_transformer(single.base_model, single.base_revision))
    heads = {}
    for name, recipe in recipes.items():
        sides = vectors.of(recipe.layer_index, recipe.pooling).train
        run = siamese.run(recipe, training_args, vectors)
        heads[name] = Head(name, recipe, training_args, vectors, sides, run, megabytes)
    sides = [np.asarray(side) for side in vectors.of(None, single.pooling).train]
    return Encoder(sides, megabytes), heads


def _megabytes(model: torch.nn.Module) -> float:
    """Size of a model's weights in float32."""
    return sum(parameter.numel() for parameter in model.parameters()) * 4 / 1e6


def _empty_transformer(model: str, revision: str | None) -> torch.nn.Module:
    """An encoder without values in its weights."""
    with one_line_where_missing(model):
        config = AutoConfig.from_pretrained(model, trust_remote_code=False, revision=revision)
    with torch.device("meta"):
        return AutoModel.from_config(config)
