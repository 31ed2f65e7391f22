"""Dual-alignment pre-training: its losses against loops written from the equations, and the three ways to load it."""

import pytest
import torch
import torch.nn.functional as F
from tiny_models import HIDDEN, save_tiny, tiny_encoder, tiny_tokenizer
from transformers import BertForMaskedLM

from hfxling.models import DapConfig, DapForPreTraining, DapModel
from hfxling.models.losses import translation_ranking_loss
from hfxling.models.pretraining_dap import concatenate_pairs

SOURCE = ["我爱吃苹果", "你好", "今天下雨", "他在"]
TARGET = ["i eat apples", "hello, you", "rain", "he is in"]
MASK = 4


def batch(texts, rows=slice(None)) -> dict:
    encoded = tiny_tokenizer()(texts[rows], padding=True, return_tensors="pt")
    return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}


def build(kind="bert", shortlist=None, **fields) -> DapForPreTraining:
    encoder = tiny_encoder(kind)
    fields = {"mask_token_id": MASK, "special_token_ids": [0, 1, 2, 3, 4]} | fields
    torch.manual_seed(1)
    size = None if shortlist is None else len(shortlist)
    model = DapForPreTraining(DapConfig(encoder_config=encoder.config, shortlist_size=size, **fields), encoder)
    if model.rtl is not None:
        model.rtl.copy_encoder(encoder, MASK)
        with torch.no_grad():
            model.vocabulary.bias.normal_()
            if model.rtl.language_embeddings is not None:
                model.rtl.language_embeddings.normal_()
        if shortlist is not None:
            model.set_shortlist(shortlist)
    return model.eval()


def sentence(side, row):
    """The row without its padding."""
    return side["input_ids"][row : row + 1, : int(side["attention_mask"][row].sum())]


def slow_rtl(model, given, wanted, given_language=None, wanted_language=None):
    """Eq. 4 and 6, one pair at a time, every layer at every position, the whole vocabulary."""
    encoder, head = model.dap.encoder, model.rtl
    total, count = 0.0, 0
    for row in range(len(given["input_ids"])):
        states = encoder(sentence(given, row)).last_hidden_state[:, 1:]
        labels = sentence(wanted, row)[0, 1:]
        positions = head.position_embeddings[1 : len(labels) + 1]
        placeholders = head.mask_embedding + head.segment_embedding + positions
        if given_language is not None:
            states = states + head.language_embeddings[given_language[row]]
            placeholders = placeholders + head.language_embeddings[wanted_language[row]]
        x = torch.cat([states, head.norm(placeholders)[None]], dim=1)
        for own, layer in zip(head.layers, encoder.encoder.layer):
            x = torch.func.functional_call(layer, dict(own.named_parameters()), (x,))  # the real class, our weights
        x = model.vocabulary(x[0, -len(labels) :])
        logits = x @ encoder.get_input_embeddings().weight.T + model.vocabulary.bias
        total, count = total + F.cross_entropy(logits, labels, reduction="sum"), count + len(labels)
    return total / count


def slow_ranking(model, source, target):
    """Eq. 5, pair by pair, both directions."""
    x, y = (
        [model.dap.encoder(sentence(side, i)).last_hidden_state[0, 0] for i in range(len(side["input_ids"]))]
        for side in (source, target)
    )
    loss = 0.0
    for a, b in ((x, y), (y, x)):
        for i in range(len(a)):
            scores = torch.stack([F.cosine_similarity(a[i], other, dim=0) for other in b]) / 0.05
            loss = loss - (scores[i] - scores.logsumexp(0)) / (2 * len(a))
    return loss


def gradients(loss, model):
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    ("kind", "layers", "rows"),
    [
        ("bert", 1, slice(None)),
        ("bert", 2, slice(0, 1)),
        ("xlm-roberta", 2, slice(None)),
        ("xlm-roberta", 3, slice(None)),
    ],
    ids=["one layer", "batch of one", "padded batch", "three layers"],
)
def test_losses_and_gradients_equal_slow_loops(kind, layers, rows):
    model = build(kind, rtl_layers=layers).double()
    source, target = batch(SOURCE, rows), batch(TARGET, rows)
    output = model(source, target)
    slow = slow_ranking(model, source, target), slow_rtl(model, source, target)
    assert torch.allclose(output.loss_tr, slow[0], atol=1e-5)
    assert torch.allclose(output.loss_rtl, slow[1], atol=1e-5)
    fast, slow = gradients(output.loss, model), gradients(sum(slow), model)
    assert fast.keys() == slow.keys()
    for name in fast:
        assert torch.allclose(fast[name], slow[name], atol=1e-9), name


@pytest.mark.parametrize("direction", ["xx-en", "en-xx", "both"])
def test_directions_with_language_embeddings(direction):
    model = build(rtl_direction=direction, languages=["en", "zh", "vi"])
    source, target, language = batch(SOURCE), batch(TARGET), torch.tensor([1, 2, 1, 2])
    english = torch.zeros(4, dtype=torch.long)
    forward = slow_rtl(model, source, target, language, english)
    backward = slow_rtl(model, target, source, english, language)
    expected = {"xx-en": forward, "en-xx": backward}
    if direction == "both":
        even, odd = ({k: v[i::2] for k, v in s.items()} for i, s in ((0, source), (1, source)))
        even_y, odd_y = ({k: v[i::2] for k, v in s.items()} for i, s in ((0, target), (1, target)))
        counts = [int(s["attention_mask"][:, 1:].sum()) for s in (even_y, odd)]
        parts = (
            slow_rtl(model, even, even_y, language[::2], english[::2]),
            slow_rtl(model, odd_y, odd, english[1::2], language[1::2]),
        )
        expected["both"] = sum(n * part for n, part in zip(counts, parts)) / sum(counts)
    assert torch.allclose(model(source, target, language).loss_rtl, expected[direction], atol=1e-5)


def test_shortlist_is_exact_and_refuses_what_it_lacks():
    source, target = batch(SOURCE), batch(TARGET)
    ids = target["input_ids"].unique()
    short, full = build(shortlist=ids), build()
    weight, bias = full.dap.encoder.get_input_embeddings().weight, full.vocabulary.bias
    with torch.no_grad():  # the whole softmax with all other words impossible
        bias[[i for i in range(len(bias)) if i not in set(ids.tolist())]] = -1e9
    assert torch.allclose(short(source, target).loss_rtl, full(source, target).loss_rtl, atol=1e-5)
    assert len(ids) < len(weight)
    with pytest.raises(ValueError, match="shortlist"):
        short(target, source)


def test_no_token_is_predicted_or_attended_behind_padding():
    model = build()
    source, target = batch(SOURCE), batch(TARGET)
    longer = [
        {"input_ids": F.pad(side["input_ids"], (0, 5)), "attention_mask": F.pad(side["attention_mask"], (0, 5))}
        for side in (source, target)
    ]
    expected, padded = model(source, target), model(*longer)
    assert torch.allclose(expected.loss, padded.loss, atol=1e-5)


def test_rtl_does_not_see_cls():
    model = build()
    states = torch.randn(2, 6, HIDDEN)
    mask, changed = torch.ones(2, 6, dtype=torch.long), states.clone()
    changed[:, 0] += 10
    assert torch.equal(model.rtl(states, mask, mask), model.rtl(changed, mask, mask))
    changed[:, 1] += 10
    assert not torch.allclose(model.rtl(states, mask, mask), model.rtl(changed, mask, mask))


def test_reconstruction_ratio_shows_states_and_counts_the_hidden_tokens_only():
    source, target = batch(SOURCE), batch(TARGET)
    torch.manual_seed(3)
    model = build(rtl_ratio=0.4)
    shown = model.draw_shown(target["attention_mask"])
    real = target["attention_mask"].bool()
    assert shown.any()
    assert not shown[:, 0].any()
    assert not (shown & ~real).any()
    assert (real[:, 1:] & ~shown[:, 1:]).any(1).all()
    hidden = (real & ~shown)[:, 1:].sum(1)
    assert torch.equal(hidden, (0.4 * (real.sum(1) - 1)).round().long().clamp(min=1))
    assert model.rtl_tokens(source, target) == hidden.sum()
    seen = {}
    model.vocabulary_loss = lambda states, labels, use_shortlist: seen.update(n=len(labels)) or states.sum()
    model(source, target)
    assert seen["n"] == hidden.sum()
    assert build(rtl_ratio=1.0).draw_shown(target["attention_mask"]) is None


def test_tlm_concatenates_without_a_gap():
    source, target = batch(SOURCE), batch(TARGET)
    ids, mask = concatenate_pairs(source, target, 0)
    for row in range(4):
        expected = torch.cat([sentence(source, row)[0], sentence(target, row)[0, 1:]])
        assert torch.equal(ids[row, : len(expected)], expected)
        assert mask[row].sum() == len(expected)
        assert not ids[row, len(expected) :].any()


def test_tlm_predicts_masked_tokens_only():
    model = build(objective="tr+tlm")
    source, target = batch(SOURCE), batch(TARGET)
    seen = {}
    predict = model.vocabulary_loss
    model.vocabulary_loss = lambda states, labels: seen.update(n=len(labels), labels=labels) or predict(states, labels)
    torch.manual_seed(0)
    output = model(source, target)
    total = int(concatenate_pairs(source, target, 0)[1].sum())
    assert 0 < seen["n"] < 0.6 * total
    assert not torch.isin(seen["labels"], torch.arange(5)).any()
    assert output.loss_rtl is None
    assert torch.allclose(output.loss, output.loss_tr + output.loss_tlm)


def test_margin_and_direction_of_the_ranking_loss():
    source, target = batch(SOURCE), batch(TARGET)
    model = build(objective="tr", ranking="forward", margin=0.3, temperature=0.1)
    *_, x, y = model.embed(source, target)
    assert torch.allclose(model(source, target).loss, translation_ranking_loss(x, y, 0.1, 0.3))
    assert model.rtl is None
    assert model.vocabulary is None


def test_head_starts_from_the_checkpoint(tmp_path):
    folder = save_tiny("bert", tmp_path / "encoder")
    torch.manual_seed(0)
    full = BertForMaskedLM(tiny_encoder("bert").config)
    full.save_pretrained(folder)
    model = DapForPreTraining.from_encoder(str(folder), mask_token_id=MASK, special_token_ids=[0, 1, 2, 3])
    transform = full.cls.predictions.transform
    assert torch.equal(model.vocabulary.dense.weight, transform.dense.weight)
    assert torch.equal(model.vocabulary.norm.weight, transform.LayerNorm.weight)
    last = model.dap.encoder.encoder.layer[-2:]
    for own, layer in zip(model.rtl.layers, last):
        for a, b in zip(own.parameters(), layer.parameters()):
            assert torch.equal(a, b)
            assert a is not b


def test_training_checkpoint_comes_back_whole(tmp_path):
    source, target = batch(SOURCE), batch(TARGET)
    model = build(shortlist=target["input_ids"].unique(), languages=["en", "zh"])
    model.save_pretrained(tmp_path)
    again = DapForPreTraining.from_pretrained(tmp_path).eval()
    language = torch.ones(4, dtype=torch.long)
    assert torch.equal(again(source, target, language).loss, model(source, target, language).loss)


def test_a_plain_encoder_is_a_dap_model(tmp_path):
    folder = save_tiny("bert", tmp_path / "published")
    model = DapModel.from_pretrained(folder)
    cls = tiny_encoder("bert")(**batch(SOURCE)).last_hidden_state[:, 0]
    assert torch.allclose(model(**batch(SOURCE)).pooled, cls, atol=1e-6)
    assert model.config.pooling == "cls"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"objective": "rtl"}, "tr\\+rtl"),
        ({"rtl_direction": "vi"}, "xx-en, en-xx, both"),
        ({"ranking": "back"}, "forward, both"),
        ({"temperature": 0}, "temperature=0"),
        ({"margin": -1}, "margin=-1"),
        ({"rtl_ratio": 0}, "rtl_ratio=0"),
        ({"rtl_layers": 9}, "rtl_layers=9"),
    ],
)
def test_values_that_are_not_allowed(fields, message):
    with pytest.raises(ValueError, match=message):
        DapConfig(encoder_config=tiny_encoder("bert").config, **fields)


def test_the_head_names_the_encoders_it_can_use():
    encoder = tiny_encoder("distilbert")
    config = DapConfig(encoder_config=encoder.config)
    with pytest.raises(ValueError, match="bert or xlm-roberta"):
        DapForPreTraining(config, encoder)
    assert DapForPreTraining(DapConfig(encoder_config=encoder.config, objective="tr"), encoder).rtl is None
