"""Two heaps and an encoder, no pair known: what is found, how good it is said to be, and encoders that know nothing."""

from pathlib import Path

import numpy as np
import pytest

import hfxling
from hfxling.cli import main
from hfxling.encoders.protocol import Encoder
from hfxling.files import files_of
from hfxling.sentences import grow as module
from hfxling.sentences.blocks import both_ways
from hfxling.sentences.engine import Mined, select
from hfxling.sentences.impostors import Impostors, best_precision, mutual_pairs, of_precision

PAIRED, ALONE = 210, 70
LANGUAGES = ("zh", "vi")


class Knows(Encoder):
    """An encoder that knows what sentences mean, more or less, and where a language has a place of its own."""

    def __init__(self, pairs, noise: float):
        super().__init__("knows", "1", is_in_memory=True)
        rng = np.random.default_rng(0)
        self.vectors = {}
        for zh, vi in pairs:
            meaning = rng.normal(size=64)
            for place, text in enumerate((zh, vi)):
                vector = meaning + noise * rng.normal(size=64)
                vector[place] += 20
                self.vectors[text] = vector

    def _vectors(self, texts, route, role, progress):
        return np.array([self.vectors[text] for text in texts], np.float32)


@pytest.fixture(scope="module")
def text():
    """Pairs without repeated sides, and both heaps."""
    rows = hfxling.load_parallel("sample", "zh", "vi")
    pairs = []
    seen = set()
    for zh, vi in zip(rows["source"], rows["target"]):
        if not seen & {zh, vi}:
            pairs.append((zh, vi))
            seen |= {zh, vi}
    pairs = pairs[: PAIRED + 2 * ALONE]
    assert len(pairs) == PAIRED + 2 * ALONE
    rng = np.random.default_rng(0)
    numbers = [[*range(PAIRED + ALONE)], [*range(PAIRED), *range(PAIRED + ALONE, PAIRED + 2 * ALONE)]]
    heaps = []
    for side, rows in enumerate(numbers):
        heaps.append([pairs[i][side] for i in rng.permutation(rows)])
    return pairs, heaps


def test_a_bitext_and_links_without_a_known_pair(text, tmp_path):
    pairs, heaps = text
    output = tmp_path / "out"
    found = hfxling.bootstrap(*heaps, languages=LANGUAGES, model=Knows(pairs, 0.9), rounds=2, output=output)
    gold = set(pairs[:PAIRED])
    right = sum((row.source, row.target) in gold for row in found.pairs)
    assert right / len(found.pairs) > 0.9
    assert right / PAIRED > 0.6
    first, last = found.rounds[0], found.rounds[-1]
    assert first.learnt == 0 < last.learnt
    assert last.strict > 0.6 * PAIRED
    assert last.estimate.low <= last.estimate.precision <= last.estimate.high
    assert abs(last.estimate.unpaired - ALONE / (PAIRED + ALONE)) < 0.15
    assert (output / "model/config.json").is_file()
    assert len((output / "pairs.tsv").read_text(encoding="utf-8").splitlines()) == len(found.pairs) + 1


def test_known_pairs_help_links(text):
    pairs, heaps = text
    known = [[pair[side] for pair in pairs[:30]] for side in (0, 1)]
    found = hfxling.bootstrap(*heaps, languages=LANGUAGES, model=Knows(pairs, 0.9), seed_pairs=known, rounds=0)
    assert not {row.source for row in found.pairs} & {*known[0]}, "they are no part of what is found"


def test_links_of_known_pairs_need_no_encoder(text):
    pairs, heaps = text
    known = [[pair[side] for pair in pairs[:100]] for side in (0, 1)]
    found = hfxling.bootstrap(*heaps, languages=LANGUAGES, seed_pairs=known, precision=0.8, rounds=1)
    gold = set(pairs[100:PAIRED])
    right = sum((row.source, row.target) in gold for row in found.pairs)
    assert right > 0.5 * len(gold)
    assert right / len(found.pairs) > 0.7
    assert found.rounds[0].learnt == 100 < found.rounds[1].learnt
    assert {*found.model.static} == {"zh", "vi"}
    assert found.fused is None


def test_nothing_judges_a_source_that_it_learnt_from(text, monkeypatch):
    pairs, heaps = text
    learnt, judged = [], []
    learn, search = module.Heaps.links_of, module.both_ways

    def watched(self, source_rows, target_rows):
        learnt.append({*source_rows.tolist()})
        judged.append({*np.flatnonzero(self.fold == len(judged) % module.FOLDS).tolist()})
        return learn(self, source_rows, target_rows)

    def counted(source, target, *args, **options):
        sizes.append(len(source[0]) if isinstance(source, list) else len(source))
        return search(source, target, *args, **options)

    sizes = []
    monkeypatch.setattr(module.Heaps, "links_of", watched)
    monkeypatch.setattr(module, "both_ways", counted)
    vectors = [Knows(pairs, 0.9).encode(heap) for heap in heaps]
    module.grow(heaps, LANGUAGES, vectors=vectors, rounds=1)
    assert len(learnt) == 3
    assert sizes == [PAIRED + ALONE, *(len(rows) for rows in judged)]
    for rows, others in zip(learnt, judged):
        assert rows
        assert not rows & others


def test_what_cannot_be_done(text, refusal, tmp_path):
    pairs, heaps = text
    asked = {"languages": LANGUAGES, "output": tmp_path / "out"}
    knows = Knows(pairs, 1)

    def refused(source, target, **options):
        return refusal(lambda: hfxling.bootstrap(source, target, **asked, **options))

    assert "give --seed_pairs (100 or more), a --model" in refused(*heaps)
    said = refused(*heaps, model=Knows(pairs, 1000))
    assert "does the model know both languages? Give another model or known pairs" in said
    assert "5 distinct sentences of 5; give 20 or more of each language" in refused(heaps[0][:5], heaps[1], model=knows)
    assert "1 distinct sentences of 300; give 20" in refused(heaps[0], heaps[1][:1] * 300, model=knows)
    assert "not in 'vi'; give a text of that language" in refused(heaps[0][:150], heaps[0][150:], model=knows)
    assert "share 100 of 100 sentences: copies are not translations" in refused(heaps[0], heaps[0][:100], model=knows)
    assert not (tmp_path / "out").exists()


def test_heaps_without_a_mutual_pair(text, monkeypatch, refusal):
    """Nothing can be learnt from nothing."""
    pairs, heaps = text
    nothing = Mined(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    monkeypatch.setattr("hfxling.sentences.impostors.select", lambda *args: nothing)
    said = refusal(lambda: hfxling.bootstrap(*heaps, languages=LANGUAGES, model=Knows(pairs, 1)))
    assert "only 0 of the 0 pairs found are likely translations" in said


def test_a_poorer_last_round_is_not_taken(monkeypatch):
    rounds = []

    def mine(self, learnt):
        rounds.append(np.arange(200 if not rounds else 150))
        return Mined(rounds[-1], rounds[-1], -rounds[-1].astype(float)), ()

    monkeypatch.setattr(module.Heaps, "mine", mine)
    monkeypatch.setattr(module, "of_precision", lambda pairs, given, wanted: (pairs, None))
    texts = [[f"{side} {i}" for i in range(250)] for side in LANGUAGES]
    grown = module.grow(texts, LANGUAGES, vectors=np.random.default_rng(0).normal(size=(2, 250, 4)))
    assert [len(rounds), len(grown.pairs.score), grown.best.strict] == [2, 200, 200]


def test_the_share_of_wrong_pairs_is_that_of_impostors():
    """1,000 sources, 600 with a translation; of sources without one a tenth gets a pair, with scores below 5."""
    scores = np.concatenate([np.linspace(10, 2, 600), np.linspace(5, 1, 40)])
    order = np.argsort(-scores)
    pairs = Mined(order, order, scores[order])
    given = np.full(640, -np.inf)
    given[::10] = np.random.default_rng(0).permutation(np.linspace(5, 1, 64))
    far = np.zeros(640, bool)
    side = Impostors(given, given, far, 1000)
    strict, estimate = of_precision(pairs, (side, side), 0.95)
    assert estimate.unpaired == pytest.approx(0.4, abs=0.01)
    is_wrong = strict.source >= 600
    assert 0.95 <= estimate.precision <= 0.96
    assert 1 - is_wrong.mean() == pytest.approx(estimate.precision, abs=0.02)
    assert estimate.low < 1 - is_wrong.mean() < estimate.high
    side = Impostors(given + 20, given + 20, far, 1000)
    nothing, estimate = of_precision(pairs, (side, side), 0.95)
    assert estimate is None
    assert len(nothing.score) == 0


def test_the_best_estimate_is_that_of_some_threshold():
    order = np.arange(100)
    pairs = Mined(order, order, np.linspace(10, 2, 100))
    given = np.full(100, -np.inf)
    given[::5] = np.linspace(9, 1, 20)
    side = Impostors(given, given, np.zeros(100, bool), 200)
    best = best_precision(pairs, (side, side))
    kept, estimate = of_precision(pairs, (side, side), best)
    assert len(kept.score) > 0
    assert estimate.precision == pytest.approx(best)
    assert of_precision(pairs, (side, side), best + 0.005)[1] is None


@pytest.mark.parametrize("exchanged", [False, True])
def test_a_list_beside_a_long_text(exchanged):
    """Most sentences of the list have a translation in the other text, or none has one."""
    covered = 0
    for seed in range(10):
        translated = 180 if seed % 2 else 0
        rng = np.random.default_rng(seed)
        own, other = rng.normal(size=(200, 12)), rng.normal(size=(4000, 12))
        other[:translated] = own[:translated] + 0.3 * other[:translated]
        sides = [side.astype(np.float32) for side in (own, other)][:: -1 if exchanged else 1]
        pairs, given = mutual_pairs(*both_ways(*sides, 5))
        kept, estimate = of_precision(pairs, given, 0.9)
        if not translated:
            assert estimate is None
            continue
        is_right = (kept.source == kept.target) & (kept.source < translated)
        assert len(kept.score) > 0.5 * translated
        covered += estimate.low <= is_right.mean() <= estimate.high
    assert covered >= 4  # of five


def test_impostors_are_what_a_search_without_the_target_gives():
    rng = np.random.default_rng(0)
    k = 4
    vectors = rng.normal(size=(2, 60, 8)).astype(np.float32)
    vectors[1, :40] = vectors[0, :40] + 0.3 * vectors[1, :40]
    forward, backward = both_ways(*vectors, k + 1)
    pairs, (of_sources, of_targets) = mutual_pairs(forward, backward)
    assert 0 < np.isfinite(of_sources.scores).sum() < len(pairs.score)
    assert np.isfinite(of_sources.raised).sum() > np.isfinite(of_sources.scores).sum()
    # Among vectors of one kind, a target that is gone is hardly missed by other sentences: those of 60.
    for given, (own, others, rows, partners) in (
        (of_sources, (vectors[0], vectors[1], *pairs[:2])),
        (of_targets, (vectors[1], vectors[0], *pairs[1::-1])),
    ):
        agreed = []
        for score, row, partner in zip(given.scores, rows, partners):
            rest = np.delete(others, partner, axis=0)
            found = select(*both_ways(own, rest, k), "distance")
            there = found.score[found.source == row]
            agreed.append(np.isclose(score, there[0], atol=0.02) if len(there) else score == -np.inf)
        assert np.mean(agreed) > 0.8


@pytest.mark.slow
def test_a_killed_bootstrap_ends_alike(text, zh_vi_links, killed, tmp_path, monkeypatch):
    """Links of the text itself, as a folder with static vectors, are an encoder that knows both languages."""
    _, heaps = text
    monkeypatch.chdir(tmp_path)
    words = ["bootstrap", *LANGUAGES, "--languages", *LANGUAGES, "--model", str(zh_vi_links), "--rounds", "0"]
    for heap, language in zip(heaps, LANGUAGES):
        Path(language).write_text("".join(f"{line}\n" for line in heap), encoding="utf-8")
    main([*words, "--cache_dir", "whole_cache", "--output", "whole"])
    words += ["--cache_dir", "cache", "--output", "killed"]
    killed(Path("cache").exists, *words)  # it has begun to encode
    assert not Path("killed").exists(), "it was done already"
    main(words)
    names = files_of(tmp_path / "whole")
    assert names == files_of(tmp_path / "killed")
    for name in names:
        assert Path("whole", name).read_bytes() == Path("killed", name).read_bytes(), name


def test_vectors_that_say_nothing():
    """A static model has none of a text that it knows no word of; a model that knows nothing gives all the same."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(60, 8)) + 5
    vectors[7] = 0
    found = module.centred(vectors)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    known = np.delete(np.arange(60), 7)
    without = module.centred(vectors[known])
    assert np.allclose(found[known], without, atol=1e-6), "it has no part in the mean"
    with pytest.raises(ValueError, match="60 of 60 sentences of a text have no vector or the same one"):
        module.centred(np.ones((60, 8)))
    with pytest.raises(ValueError, match="60 of 60 sentences"):
        module.centred(np.zeros((60, 8)))
