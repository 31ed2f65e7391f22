"""Mixed batches: a function of seed and number, in step over processes, bucketed, resumable."""

from collections import Counter

import numpy as np
import pytest
from accelerate import skip_first_batches
from datasets import Dataset, concatenate_datasets
from tiny_models import tiny_tokenizer

from hfxling.methods.dap.mixing import MixedBatches, TokenLengths, batch_loader, mixing_weights

LENGTHS = TokenLengths(tiny_tokenizer(), 64)


def corpus(lang: str, size: int, seed: int = 0) -> Dataset:
    """Numbered pairs of 1 to 30 characters a side, both sides of about the same length."""
    lengths = np.random.default_rng(seed).integers(1, 28, size)
    return Dataset.from_dict(
        {
            "source": [f"{i}" + "a" * n for i, n in enumerate(lengths)],
            "target": [f"{i}" + "b" * (n + 1) for i, n in enumerate(lengths)],
            "source_lang": [lang] * size,
            "target_lang": ["en"] * size,
            "row": range(size),
        }
    )


SIZES = {"zh": 300, "vi": 40, "th": 7}
CORPORA = [corpus(lang, size, seed) for seed, (lang, size) in enumerate(SIZES.items())]
LARGE = {"corpora": [corpus("zh", 300)], "weights": [1.0]}  # enough for 25 batches


def build(corpora=CORPORA, weights=(0.5, 0.3, 0.2), **settings):
    settings = {"batch_size": 12, "batches": 20, "seed": 3, "bucket": 4, "measure": LENGTHS} | settings
    return MixedBatches(corpora, weights, **settings)


def keys(rows):
    return [(row["source_lang"], row["source"], row["target"]) for row in rows]


def items(batches):
    return [keys(batches[t]) for t in range(20)]


def ident(rows):
    return rows


def test_mixing_weights():
    np.testing.assert_allclose(mixing_weights([1, 3]), [0.25, 0.75])
    np.testing.assert_allclose(mixing_weights([1, 3], "temperature", 1), [0.25, 0.75])
    np.testing.assert_allclose(mixing_weights([1, 32], "temperature", 5), [1 / 3, 2 / 3])


def test_mixing_weights_refuse_empty_corpora():
    with pytest.raises(ValueError, match="none that is empty"):
        mixing_weights([3, 0])


def test_batches_depend_on_the_seed_alone():
    expected = items(build())
    assert items(build()) == expected
    assert items(build(seed=4)) != expected
    assert len({len(rows) for rows in expected}) == 1
    assert len(build()) == len(expected) == 20


def test_items_in_any_order():
    expected, batches = items(build()), build()
    order = np.random.default_rng(0).permutation(20)
    assert [keys(batches[t]) for t in order] == [expected[t] for t in order]
    assert keys(batches.__getitems__([7, 2])) == expected[7] + expected[2]
    with pytest.raises(IndexError):
        batches[20]


@pytest.mark.parametrize("bucket", [1, 4])
def test_processes_share_out_the_batch(bucket):
    whole = items(build(bucket=bucket))
    parts = [items(build(bucket=bucket, rank=rank, world=3)) for rank in range(3)]
    for rows, *shares in zip(whole, *parts):
        assert [len(share) for share in shares] == [4, 4, 4]
        assert sorted(row for share in shares for row in share) == sorted(rows)


def test_processes_get_alike_lengths():
    parts = [build(batch_size=60, rank=rank, world=3, **LARGE) for rank in range(3)]
    for t in range(8):
        means = [np.mean([len(row["source"]) for row in part[t]]) for part in parts]
        assert max(means) - min(means) < 1


def test_rows_of_a_pass_come_once():
    """Across bucket borders too: 300 rows are 25 batches, in 6.25 megabatches, so passes are compared as multisets."""
    batches = build(CORPORA[:1], [1.0], batches=100)
    seen = Counter()
    every = [batches[t] for t in range(100)]
    for first in range(0, 100, 4):  # after a megabatch counts differ by one at most
        seen.update(row for rows in every[first : first + 4] for row in keys(rows))
        most = max(seen.values())
        assert min(seen.values()) >= most - 1
        assert len(seen) == 300 or most == 1
    assert set(seen.values()) == {4}


def test_passes_differ_in_order():
    batches = build(corpora=CORPORA[:1], weights=[1.0], bucket=1, batches=50)
    first, second = (set(keys(batches[t])) for t in (0, 25))
    assert len(first & second) < 6  # twelve of 300 rows, twice


def test_batches_come_in_random_order_of_length():
    means = [np.mean([len(row["source"]) for row in batch]) for _, batch in zip(range(20), build(bucket=20, **LARGE))]
    assert max(means) > 4 * min(means)
    assert abs(np.corrcoef(means, range(20))[0, 1]) < 0.7


def test_frequencies_follow_the_weights():
    batches = build(batch_size=100, batches=40)
    rows = [row for t, batch in zip(range(40), batches) for row in batch]
    counts = Counter(row["source_lang"] for row in rows)
    shares = [counts[lang] / len(rows) for lang in SIZES]
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=0.03)  # three standard deviations are 0.024


def test_weight_of_zero_is_never_drawn():
    assert {row[0] for rows in items(build(weights=[1, 0, 1])) for row in rows} == {"zh", "th"}


def test_rows_of_one_length_are_mixed_over_corpora():
    """With all lengths alike a stable sort alone would leave every batch one corpus."""
    flat = [c.map(lambda row: {"source": "a", "target": "b"}) for c in CORPORA]
    batches = build(corpora=flat, batch_size=40)
    assert all(len({row["source_lang"] for row in batches[t]}) == 3 for t in range(20))


def padding(batches) -> float:
    """Padded over real characters."""
    padded = real = 0
    for t in range(20):
        for side in ("source", "target"):
            lengths = [len(row[side]) for row in batches[t]]
            padded, real = padded + max(lengths) * len(lengths), real + sum(lengths)
    return padded / real


@pytest.mark.parametrize(("size", "buckets"), [(12, 1), (40, 3), (1000, 64)])
def test_few_rows_are_not_sorted_with_their_copies(size, buckets):
    """Copies of a row would stand in one batch, where they are no negatives."""
    batches = build(corpora=[corpus("zh", size)], weights=[1.0], bucket=64)
    assert batches.bucket == buckets
    for batch in items(batches)[:buckets]:
        assert len(set(batch)) == 12


def test_buckets_save_padding():
    assert padding(build(bucket=1, **LARGE)) > 1.5
    assert padding(build(bucket=20, **LARGE)) < 1.15


def test_token_lengths_put_the_longer_side_first():
    pairs = Dataset.from_dict({"source": ["aaaa", "aa", "a", "a" * 50], "target": ["a", "aaa", "aaaa", "a"]})
    table = pairs.with_format("arrow")[:]
    order = np.argsort(TokenLengths(tiny_tokenizer(), 10)(table["source"], table["target"]), kind="stable")
    assert order.tolist() == [1, 0, 2, 3]


def test_token_lengths_are_measured_once(tmp_path):
    class Counted(TokenLengths):
        calls = 0

        def __call__(self, *texts):
            Counted.calls += 1
            return super().__call__(*texts)

    def built(max_length, corpora=CORPORA):
        tokenizer = tiny_tokenizer()
        tokenizer("a", padding=True, truncation=True, max_length=7)  # leaves its traces in the tokenizer
        return build(measure=Counted(tokenizer, max_length), cache_dir=tmp_path, corpora=corpora)

    expected = items(build(measure=TokenLengths(tiny_tokenizer(), 32)))
    assert items(built(32)) == items(built(32)) == expected
    assert Counted.calls == 1
    assert items(built(10)) != expected
    assert items(built(32, [c.select(range(len(c) - 1)) for c in CORPORA])) != expected
    assert Counted.calls == 3
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("workers", [0, 1])
def test_loader_resumes_exactly(workers):
    whole = [keys(rows) for rows in batch_loader(build(), ident)]
    assert whole == items(build())
    for skipped in (0, 3, 4, 13):
        loader = batch_loader(build(), ident, num_workers=workers)
        assert [keys(rows) for rows in skip_first_batches(loader, skipped)] == whole[skipped:]
        if workers:
            return


def test_loader_skips_without_reading(monkeypatch):
    batches, read = build(), []
    fetch = MixedBatches.__getitems__
    monkeypatch.setattr(MixedBatches, "__getitems__", lambda self, ts: read.extend(ts) or fetch(self, ts))
    assert len(list(skip_first_batches(batch_loader(batches, ident), 17))) == 3
    assert read == [17, 18, 19]


def test_two_workers_keep_the_order():
    assert [keys(rows) for rows in batch_loader(build(), ident, num_workers=2)] == items(build())


def test_filtered_and_plain_corpora_mix():
    """A set with an indices mapping beside one without."""
    batches = build(corpora=[CORPORA[0].select([5, 9, 11]), concatenate_datasets(CORPORA[1:])], weights=[1, 1])
    langs = Counter(row[0] for rows in items(batches) for row in rows)
    assert set(langs) == set(SIZES)
    assert {row[1].rstrip("a") for rows in items(batches) for row in rows if row[0] == "zh"} == {"5", "9", "11"}
