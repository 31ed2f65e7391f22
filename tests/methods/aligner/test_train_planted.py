"""A lexicon that is known because it was planted: the aligner finds its words, and its attention looks at them."""

import numpy as np
import pytest
import torch
from transformers import TrainingArguments

from hfxling.evaluation.results import EvalResult
from hfxling.methods.aligner.arguments import TRAINING_DEFAULTS, AlignerSettings
from hfxling.methods.aligner.train import train_aligner
from hfxling.models.configuration_aligner import AlignerConfig
from hfxling.models.modeling_aligner import AlignerModel
from hfxling.words.pairs import EncodedPairs, pad

LANGUAGES = ("lo", "zh")
WORDS = 40
FIRST = 4  # id of the first word


def planted(pairs: int, seed: int = 0) -> tuple[EncodedPairs, np.ndarray]:
    """Sentences of 4 to 8 different words with their translations in any order, and the translation of every word."""
    rng = np.random.default_rng(seed)
    lexicon = FIRST + rng.permutation(WORDS)
    source = [FIRST + rng.choice(WORDS, rng.integers(4, 9), replace=False) for _ in range(pairs)]
    target = [lexicon[rng.permutation(row) - FIRST].tolist() for row in source]
    return EncodedPairs(LANGUAGES, [row.tolist() for row in source], target), lexicon


def words_found(model: AlignerModel, lexicon: np.ndarray) -> float:
    """P@1 of the static vectors, 0..1."""
    source, target = (torch.nn.functional.normalize(model.static_table(lang)[FIRST:], dim=1) for lang in LANGUAGES)
    return float(np.mean((source @ target.T).argmax(1).numpy() + FIRST == lexicon))


def links_found(model: AlignerModel, pairs: EncodedPairs, lexicon: np.ndarray) -> float:
    """How often a word of either side attends most to its translation, 0..1."""
    with torch.no_grad():
        states = model.align_states(pad(pairs.source), pad(pairs.target), LANGUAGES)
    right = []
    for row, (source, target) in enumerate(zip(pairs.source, pairs.target)):
        gold = np.equal.outer(np.array(target), lexicon[np.array(source) - FIRST])  # (T, S)
        for weights, truth in ((states.target_to_source, gold), (states.source_to_target, gold.T)):
            best = weights[row, : truth.shape[0], : truth.shape[1]].argmax(1).numpy()
            right += truth[np.arange(len(best)), best].tolist()
    return float(np.mean(right))


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_planted_lexicon_is_found_and_attended_to(tmp_path, weight):
    """Attention follows once the words are found."""
    pairs, lexicon = planted(120)
    torch.manual_seed(0)
    sizes = dict.fromkeys(LANGUAGES, FIRST + WORDS)
    model = AlignerModel(AlignerConfig(vocab_sizes=sizes, size=48, dropout=0.0, contrastive_weight=weight))
    assert words_found(model, lexicon) < 0.1
    assert links_found(model, pairs, lexicon) < 0.3

    def score(model: AlignerModel) -> list[EvalResult]:
        return [EvalResult("P@1", 100 * words_found(model, lexicon), WORDS, "planted", "train")]

    changed = {"output_dir": str(tmp_path), "num_train_epochs": 14, "learning_rate": 0.015, "save_strategy": "no"}
    settings = TrainingArguments(**TRAINING_DEFAULTS | changed | {"use_cpu": True, "disable_tqdm": True})
    train_aligner(AlignerSettings(evaluate_every=4), settings, model, [pairs], [score])
    assert words_found(model, lexicon) > 0.98
    assert links_found(model, pairs, lexicon) > 0.5
