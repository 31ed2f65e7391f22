"""What competes in `hfxling fit`: fold by fold on the same left-out pairs, then the winner on all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from huggingface_hub.utils import tqdm
from transformers import AutoModel, TrainingArguments

from hfxling.data.corpus import Corpus, load_corpus
from hfxling.data.sources import name_of_pair
from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.fusion import ROLES, Pools, fit_fusion, pool_rows, stored
from hfxling.encoders.identity import model_name
from hfxling.encoders.sparse import LexicalEncoder
from hfxling.evaluation.averages import mean_result
from hfxling.evaluation.results import EvalResult, format_table
from hfxling.evaluation.retrieval import gold_ranks, hits_at
from hfxling.evaluation.significance import mean_interval
from hfxling.files import check_replaceable, weights_hash
from hfxling.methods import lexical, siamese
from hfxling.methods.lexical.data import LEAST_PAIRS, Prepared, link_views
from hfxling.methods.lexical.evaluate import rank as rank_links
from hfxling.methods.lexical.train import fit as fit_links
from hfxling.methods.publishing import Run, publish_run
from hfxling.methods.siamese.choice import INFONCE, TIED, candidates
from hfxling.methods.siamese.closed_form import CLOSED_FORMS
from hfxling.methods.siamese.data import encode
from hfxling.methods.siamese.layers import choose_layers
from hfxling.methods.siamese.train import head_inputs, infonce_maps, new_head, replace_arguments
from hfxling.models.modeling_lexical import LexicalModel

FOLDS = 5
MOST = 10_000  # pairs up to which all are left out in turn; of more, one fold of HELD_OUT
HELD_OUT = 2_000
NEAREST = 'hfxling nearest "..." --candidates FILE'
Embed = Callable[[int, np.ndarray], np.ndarray]  # side and rows of the training text to dense vectors


@dataclass
class Entry:
    """What competes.

    Attributes:
        name: as `--choose` knows it.
        needs: what a reader of the folder needs to be told.
        use: a command that uses the written folder, with {folder}.
        ranks: of the left-out pairs, fold by fold, in both directions.
        cpu_s: CPU seconds of every fold's fit, the encoder's own not counted.
        megabytes: of the weights, the encoder's included.
    """

    name: str
    needs: str
    use: str
    ranks: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    megabytes: float = 0.0

    def hits(self, direction: int | None = None) -> np.ndarray:
        """100 for every pair that was found first, else 0: (N,) of a direction, (2N,) of both."""
        asked = (0, 1) if direction is None else (direction,)
        return np.concatenate([hits_at(fold[i], 1) for fold in self.ranks for i in asked])

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the block's CPU seconds."""
        start = time.process_time()
        yield
        self.cpu_s.append(time.process_time() - start)


class Contest:
    """The text, its folds and all that competes; see `hfxling.old.fit.FitArguments`.

    Raises:
        ValueError: fewer than ten pairs, and what reading the text or the encoder refuses.
        FileNotFoundError: a file or an encoder that is not there.
    """

    def __init__(self, args):
        self.args, self.languages = args, tuple(args.languages)
        for folder in ("model", "lexical/model"):
            check_replaceable(Path(args.output, folder), [*args.pairs, args.model])
        settings = {"output_dir": args.output, "seed": args.seed, "save_strategy": "no", "disable_tqdm": True}
        settings |= {"dataloader_pin_memory": torch.cuda.is_available(), "hub_model_id": args.repo}
        self.training_args = TrainingArguments(**siamese.TRAINING_DEFAULTS | settings)
        text = {"pairs": [name_of_pair(self.languages)], "train_data": ["+".join(args.pairs)], "test_data": []}
        self.links = lexical.Arguments(**text, data_licence=args.licence)
        self.corpus = load_corpus(self.links)
        (self.text,) = self.corpus.pairs
        if (count := len(self.text.train)) < LEAST_PAIRS:
            raise ValueError(f"{' '.join(args.pairs)}: {count} pairs are too few; give {LEAST_PAIRS} or more.")
        self.sides = [list(self.text.train[side]) for side in ("source", "target")]
        order = np.random.default_rng(args.seed).permutation(count)
        self.folds = np.array_split(order, FOLDS) if count <= MOST else [order[:HELD_OUT]]
        self.entries = []
        if self._wants("static", "sparse", "fused"):
            self.entries.append(Entry("static", "nothing", f"{NEAREST} --model {{folder}}"))
            self.entries.append(Entry("sparse", "hfxling, or trust_remote_code", f"{NEAREST} --lexical {{folder}}"))
        self.heads: dict[str, tuple[siamese.Arguments, Run]] = {}
        if args.model and self._wants("head", "layers", "fused"):
            text |= {"base_model": args.model, "pooling": args.pooling, "data_licence": args.licence}
            self._add_heads(siamese.Arguments(**text, layer="last", one_map=args.one_map))

    def _wants(self, *names: str) -> bool:
        return not self.args.only or not {*names}.isdisjoint(self.args.only)

    def _add_heads(self, single: siamese.Arguments) -> None:
        """Fit the heads on all pairs, which says what they are; the folds fit the same anew."""
        several = replace(single, layer="auto", fit="auto" if single.one_map else "tied")
        self.vectors = encode([single, several], self.corpus)
        several, found = choose_layers(several, self.vectors, self.args.seed)
        is_set = isinstance(several.layer_index, tuple) and self._wants("layers", "fused")
        heads = {"layers": several} if is_set else {}
        if self._wants("head") or not heads:
            heads = {"head": replace(single, layer=found["single_layer"])} | heads
        self.heads = {name: (args, siamese.run(args, self.training_args, self.vectors)) for name, args in heads.items()}
        megabytes, shares = encoder_megabytes(single), single.one_map
        if "head" in heads:
            shares = shares or self.heads["head"][1].reached["form"] not in (TIED, INFONCE)
        flag = {"head": "nothing" if shares else "the texts' language", "layers": "trust_remote_code"}
        made = [Entry(name, flag[name], f"{NEAREST} --model {{folder}}", megabytes=megabytes) for name in self.heads]
        made[-1].use += (flagged := " --trust_remote_code true" * ("layers" in heads))
        use = f"{NEAREST} --model {{folder}} --lexical {{lexical}}{flagged}"
        fused = [Entry("fused", "hfxling", use, megabytes=megabytes)] if self._wants("fused") else []
        self.entries = [Entry("encoder", "nothing", "", megabytes=megabytes), *made, *self.entries, *fused]

    def run(self) -> None:
        """Rank the left-out pairs of every fold by everything."""
        folds = []
        for held in tqdm(self.folds, desc="folds", unit="fold", name="hfxling"):
            kept = np.setdiff1d(np.arange(len(self.sides[0])), held)
            model = self._rank_links(kept, held) if self.competes("sparse") else None
            embed = self._rank_heads(kept, held) if self.heads else None
            if self.competes("fused"):
                pool = kept[pool_rows(len(kept))]
                folds.append([self._in_both_roles(embed, model, rows) for rows in (held, pool)])
        if folds:
            self._rank_fused(folds)

    def _in_both_roles(self, embed: Embed, model: LexicalModel, rows: np.ndarray) -> Pools:
        """Dense and sparse vectors of rows of the text, by language and role."""
        found = {}
        for side, lang in enumerate(self.languages):
            dense, texts = embed(side, rows), self._texts(side, rows)
            found |= {(lang, role): (dense, model.encode(texts, lang, role)) for role in ROLES}
        return found

    def _texts(self, side: int, rows: np.ndarray) -> list[str]:
        return [self.sides[side][row] for row in rows]

    def _rank_links(self, kept: np.ndarray, held: np.ndarray) -> LexicalModel:
        """The fold's links, and how they rank."""
        sparse, static = self.entry("sparse"), self.entry("static")
        with sparse.timed(), static.timed():
            part = replace(self.text, train=self.text.train.select(kept))
            views = link_views(self.links, Corpus([part], self.corpus.name))
            model = fit_links(self.links, views, seed=self.args.seed)
        found = rank_links(model, [self._texts(side, held) for side in (0, 1)], self.languages)
        for entry, ranks in ((sparse, found[:2]), (static, found[2:])):
            entry.ranks.append(tuple(ranking.ranks for ranking in ranks))
        tables = {id(table): table.nbytes for table in model.static.values()}
        static.needs = "nothing" if views[0].is_shared else "the texts' language"
        static.megabytes = sum(tables.values()) / 1e6
        sparse.megabytes = sum(tensor.nbytes for tensor in model.state_dict().values()) / 1e6
        return model

    def _rank_heads(self, kept: np.ndarray, held: np.ndarray) -> Embed:
        """How the encoder and the fold's heads rank; gives the vectors of the last head."""
        vectors = [np.asarray(side) for side in self.vectors.of(None, self.args.pooling).train]
        self.entry("encoder").ranks.append(gold_ranks(*(side[held] for side in vectors)))
        self.entry("encoder").cpu_s.append(0.0)
        for name, (args, run) in self.heads.items():
            with self.entry(name).timed():
                embed = self._refitted(args, run.reached, kept)
            self.entry(name).ranks.append(gold_ranks(*(embed(side, held) for side in (0, 1))))
        return embed

    def _refitted(self, args: siamese.Arguments, reached: dict, kept: np.ndarray) -> Embed:
        """The head that was chosen on all pairs, with its settings, fitted on some of them."""
        train = self.vectors.of(args.layer_index, args.pooling).train
        sides = {lang: np.asarray(side)[kept] for lang, side in zip(self.languages, train)}
        head = new_head(args, sides)
        maps = refit(args, self.training_args, reached, head_inputs(head, sides))

        def embed(side: int, rows: np.ndarray) -> np.ndarray:
            (ready,) = head_inputs(head, {self.languages[side]: np.asarray(train[side])[rows]})
            return maps[side](ready.astype(np.float64))

        return embed

    def _rank_fused(self, folds: list[list[Pools]]) -> None:
        """Choose the weight of dense and sparse scores, and rank by their sum."""
        entry, ways = self.entry("fused"), [tuple(zip(pair, ROLES)) for pair in (self.languages, self.languages[::-1])]
        with entry.timed():
            known = [
                (*(held[key] for key in way), tuple(pool[key] for key in way)) for held, pool in folds for way in ways
            ]
            self.fusion = fit_fusion(known, folds[0][1], lexical="", languages=self.languages)
        fits = [sum(x) for x in zip(self.entry(list(self.heads)[-1]).cpu_s, self.entry("sparse").cpu_s)]
        entry.cpu_s, entry.megabytes = fits, entry.megabytes + self.entry("sparse").megabytes
        for held, pool in folds:
            fusion = replace(self.fusion, pools=stored(pool))
            vectors = [[fusion.vectors(*held[key], *key) for key in way] for way in ways]
            entry.ranks.append(tuple(gold_ranks(*way, method="dot")[0] for way in vectors))

    def competes(self, name: str) -> bool:
        """Whether there is an entry of that name."""
        return any(entry.name == name for entry in self.entries)

    def entry(self, name: str) -> Entry:
        """The entry of that name."""
        return next(entry for entry in self.entries if entry.name == name)

    def choose(self, name: str | None) -> Entry:
        """The entry of that name, by default the one that found most pairs; of equals the one that needs least.

        Raises:
            ValueError: what did not compete, or nothing that may be chosen.
        """
        able = [entry for entry in self.entries if entry.use]
        if self.args.one_map:
            able = [entry for entry in able if entry.needs in ("nothing", "trust_remote_code")]
        names = (
            ", ".join(entry.name for entry in able) or "none: every model for these languages wants to be told which"
        )
        if not able or (name and name not in (entry.name for entry in able)):
            raise ValueError(f"choose={name!r}, one_map={self.args.one_map}: there are {names}.")
        return self.entry(name) if name else max(able, key=lambda entry: entry.hits().mean())

    def table(self) -> str:
        """What competed, with its cross-validated score."""
        rows = []
        for entry in self.entries:
            hits = entry.hits()
            low, high = mean_interval(hits)
            ways = [f"{entry.hits(direction).mean():.1f}" for direction in (0, 1)]
            cost = [f"{np.mean(entry.cpu_s):.1f}", f"{entry.megabytes:.1f}", entry.needs]
            rows.append([entry.name, f"{hits.mean():.1f}", f"{low:.1f} to {high:.1f}", *ways, *cost])
        there, back = "->".join(self.languages), "->".join(self.languages[::-1])
        header = ["", "P@1", "95 %", there, back, "CPU s", "MB", "needs"]
        held = len(np.concatenate(self.folds))
        told = f"{held} pairs left out in turn, {len(self.folds)} fold(s) of {len(self.folds[0])}; P@1 in %, both ways"
        return f"{format_table(header, rows)}\n{told}"

    def write(self, winner: Entry, command: list[str]) -> dict[str, Path]:
        """Write what was chosen, fitted on all pairs, as the recipes write it.

        Returns:
            Its folder as "folder"; the lexical encoder's as "lexical" where it has one.
        """
        written = {}
        if winner.name in ("static", "sparse", "fused"):
            place = {"output_dir": str(Path(self.args.output) / "lexical")} if winner.name == "fused" else {}
            training_args = replace_arguments(self.training_args, **place)
            prepared = Prepared(self.corpus, link_views(self.links, self.corpus))
            run = lexical.run(self.links, training_args, prepared)
            self._publish("lexical", self.links, training_args, prepared, run, winner, command)
            written["lexical"] = written["folder"] = Path(training_args.output_dir) / "model"
        if winner.name in ("head", "layers", "fused"):
            args, run = self.heads[list(self.heads)[-1] if winner.name == "fused" else winner.name]
            if winner.name == "fused":
                run = replace(run, write=self._with_fusion(run.write, written["lexical"]))
            self._publish("siamese", args, self.training_args, self.vectors, run, winner, command)
            written["folder"] = Path(self.args.output) / "model"
        return written

    def _publish(self, method: str, args, training_args, prepared, run: Run, winner: Entry, command: list[str]) -> None:
        run = replace(run, results=self.results(winner), extra=run.extra | {"competed": self.scores()})
        publish_run(method, args, training_args, prepared, run, command=command)

    def _with_fusion(self, write: Callable[[Path], None], links: Path) -> Callable[[Path], None]:
        """Writes the dense encoder's folder, and beside its weights how it is added to the links."""

        def written(folder: Path) -> None:
            write(folder)
            dense = SentenceEncoder(str(folder), trust_remote_code=True)
            sparse, rows = LexicalEncoder(str(links)), pool_rows(len(self.sides[0]))
            pools = {}
            for side, lang in enumerate(self.languages):
                texts = self._texts(side, rows)
                vectors = dense.encode(texts, lang)  # a head goes by language, whatever the role
                pools |= {(lang, role): (vectors, sparse.encode(texts, lang, role)) for role in ROLES}
            replace(self.fusion, pools=stored(pools), lexical=weights_hash(links)).save(folder)

        return written

    def results(self, winner: Entry) -> list[EvalResult]:
        """P@1 of what was chosen, and of the encoder before it, as result rows."""
        rows = []
        stages = {"before": "encoder", "after": winner.name} if self.heads else {"after": winner.name}
        fields = {"dataset": self.corpus.name, "revision": self.text.revision("train"), "seed": self.args.seed}
        fields["split"] = f"training pairs, left out in {len(self.folds)} fold(s)"
        for stage, name in stages.items():
            for direction, pair in enumerate((self.languages, self.languages[::-1])):
                baseline = self.entry("encoder").hits(direction) if stage == "after" and self.heads else None
                settings = {"stage": stage, "row": name, "candidates": len(self.folds[0])}
                model = model_name(self.args.model) if self.args.model else "links"
                about = fields | {"direction": "->".join(pair), "model": model, "settings": settings}
                rows.append(mean_result("P@1", self.entry(name).hits(direction), baseline=baseline, **about))
        return rows

    def scores(self) -> dict[str, float]:
        """Cross-validated P@1 of everything, both directions."""
        return {entry.name: round(float(entry.hits().mean()), 2) for entry in self.entries}


def refit(args: siamese.Arguments, training_args: TrainingArguments, reached: dict, inputs: list) -> tuple:
    """The maps of source and target with settings that were chosen before."""
    source, target = (side.astype(np.float64) for side in inputs)
    trained = partial(infonce_maps, args, training_args) if reached.get("form") == INFONCE else None
    forms = (
        candidates(source, target, one_map=args.one_map, trained=trained)
        if args.fit == "auto"
        else CLOSED_FORMS[args.fit](source, target)
    )
    for settings, *maps in forms:
        if all(reached.get(key) == value for key, value in settings.items()):
            return tuple(maps)
    raise RuntimeError(f"{args.fit} no longer offers {reached}")  # unreachable: the forms are the same


def encoder_megabytes(args: siamese.Arguments) -> float:
    """Of the encoder's weights in float32."""
    with torch.device("meta"):
        return AutoModel.from_config(args.encoder_config()).num_parameters() * 4 / 1e6
