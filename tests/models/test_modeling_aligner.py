"""The aligner against a word-by-word loop written from the equations, and what batching, saving and loading keep."""

import math

import pytest
import torch
from torch import Tensor

from hfxling.models.aligner_layers import fast_dropout
from hfxling.models.configuration_aligner import AlignerConfig
from hfxling.models.losses import multi_view_contrastive_loss
from hfxling.models.modeling_aligner import AlignerModel

SIZES = {"lo": 9, "zh": 11, "to": 7}
LENGTHS = ((3, 5), (4, 2), (1, 3))


def tiny_aligner(**settings) -> AlignerModel:
    torch.manual_seed(0)
    pieces = {language: torch.randint(0, 6, (words, 3)) for language, words in SIZES.items()}
    config = AlignerConfig(vocab_sizes=SIZES, piece_vocab_size=6, pieces_per_word=3, size=8, **settings)
    return AlignerModel(config, pieces).eval()


def sentences(side: int, language: str) -> list[list[int]]:
    generator = torch.Generator().manual_seed(side)
    return [torch.randint(4, SIZES[language], (pair[side],), generator=generator).tolist() for pair in LENGTHS]


def batch(rows: list[list[int]], extra: int = 0) -> dict[str, Tensor]:
    width = max(map(len, rows)) + extra
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    return {"word_ids": ids, "mask": (ids > 0).long()}


# --- the equations, one word at a time


def static(model, language, word) -> Tensor:
    """Eq. 10."""
    vector = model.embedding.words[f"of_{language}"].weight[word]
    pieces = [piece for piece in model.embedding.piece_ids(language)[word].tolist() if piece]
    if pieces:
        vector = vector + sum(model.embedding.pieces.weight[piece] for piece in pieces) / len(pieces)
    return vector


def run_lstm(lstm, vectors) -> list[Tensor]:
    h = c = torch.zeros(lstm.hidden_size)
    states = []
    for x in vectors:
        gates = lstm.weight_ih_l0 @ x + lstm.bias_ih_l0 + lstm.weight_hh_l0 @ h + lstm.bias_hh_l0
        i, f, g, o = gates.chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        states.append(h)
    return states


def encode(model, language, words):
    r = [static(model, language, word) for word in words]
    left = run_lstm(model.encoder.left_to_right[0], r)
    right = run_lstm(model.encoder.right_to_left[0], r[::-1])[::-1]
    return r, [torch.cat(pair) for pair in zip(left, right)]


def decode(model, language, words, direction):
    """States and the words that they predict, in reading order."""
    read = [2, *words, 3][:: -1 if direction else 1]
    decoder = model.decoders[f"of_{language}"]
    lstm = decoder.right_to_left if direction else decoder.left_to_right
    return run_lstm(lstm, [static(model, language, word) for word in read[:-1]]), read[1:]


def attend(h, u) -> Tensor:
    scores = torch.stack([h @ state for state in u])
    return scores.exp() / scores.exp().sum()


def log_likelihood(model, t, words, source, direction) -> Tensor:
    r, u = source
    total = torch.zeros(())
    for h, word in zip(*decode(model, t, words, direction)):
        alpha = attend(h, u)
        u_bar, r_bar = (sum(a * state for a, state in zip(alpha, states)) for states in (u, r))
        hidden = model.output.weight @ (u_bar + r_bar + h)
        scores = torch.stack([static(model, t, candidate) @ hidden for candidate in range(1, SIZES[t])])
        total = total + (scores - scores.logsumexp(0))[word - 1]
    return total


def contrast(queries, keys, intra, tau=0.5) -> Tensor:
    """Eqs. 12 and 13, mean over the batch."""
    losses = []
    for i, q in enumerate(queries):
        theta = [(torch.cosine_similarity(q, k, dim=0) / tau).exp() for k in keys]
        negatives = sum(value for j, value in enumerate(theta) if j != i)
        if intra is not None:
            negatives += sum((torch.cosine_similarity(q, k, dim=0) / tau).exp() for j, k in enumerate(intra) if j != i)
        losses.append(-(theta[i] / (theta[i] + negatives)).log())
    return sum(losses) / len(losses)


def loss_by_the_equations(model, texts, languages, encoded, directions) -> dict[str, Tensor]:
    pairs = range(len(LENGTHS))
    sources = {s: [encode(model, languages[s], words) for words in texts[s]] for s in encoded}
    parts = dict.fromkeys(("translation", "reconstruction", "contrastive"), 0.0)
    with_intra = model.config.negatives == "inter+intra"
    pool = (
        (lambda x: torch.stack(x).amax(0)) if model.config.contrastive_pooling == "max" else lambda x: sum(x) / len(x)
    )
    for s in encoded:
        for t in (0, 1):
            for b in pairs:
                for direction in directions:
                    value = log_likelihood(model, languages[t], texts[t][b], sources[s][b], direction)
                    parts["reconstruction" if s == t else "translation"] -= value / len(pairs)
            if not model.config.contrastive_weight:
                continue
            x = [pool(u) for _, u in sources[s]]
            y = [pool([h for d in directions for h in decode(model, languages[t], words, d)[0]]) for words in texts[t]]
            of = {
                name: ([model.query(v) for v in side], [model.key(v) for v in side]) for name, side in zip("xy", (x, y))
            }
            if s == t:
                parts["contrastive"] += contrast(of["x"][0], of["y"][1], None)
            else:
                x_to_y = contrast(of["x"][0], of["y"][1], of["x"][1] if with_intra else None)
                y_to_x = contrast(of["y"][0], of["x"][1], of["y"][1] if with_intra else None)
                parts["contrastive"] += (x_to_y + y_to_x) / 2
    return parts


@pytest.mark.parametrize(
    ("settings", "encoded", "directions"),
    [
        ({"contrastive_weight": 0.0}, (0, 1), (0, 1)),
        ({}, (0, 1), (0, 1)),
        ({"negatives": "inter+intra", "contrastive_weight": 3.0}, (0, 1), (0, 1)),
        ({"contrastive_pooling": "max"}, (0, 1), (0, 1)),
        ({"negatives": "inter+intra", "contrastive_pooling": "max"}, (1,), (0,)),
        ({}, (0,), (1,)),
    ],
)
@torch.no_grad()
def test_loss_equals_the_loop_written_from_the_equations(settings, encoded, directions):
    model, languages = tiny_aligner(**settings), ("lo", "zh")
    texts = [sentences(side, language) for side, language in enumerate(languages)]
    loss = model.pair_loss(*map(batch, texts), languages, encode=encoded, directions=directions)
    expected = loss_by_the_equations(model, texts, languages, encoded, directions)
    for name in ("translation", "reconstruction"):
        assert loss[f"loss_{name}"].item() == pytest.approx(float(expected[name]), rel=1e-5)
    weight = model.config.contrastive_weight
    assert ("loss_contrastive" in loss) == bool(weight)
    if weight:
        assert loss.loss_contrastive.item() == pytest.approx(float(expected["contrastive"]), rel=1e-4)
    total = expected["translation"] + expected["reconstruction"] + weight * expected["contrastive"]
    assert loss.loss.item() == pytest.approx(float(total), rel=1e-5)


@torch.no_grad()
def test_attention_equals_the_loop():
    model, languages = tiny_aligner(), ("lo", "zh")
    texts = [sentences(side, language) for side, language in enumerate(languages)]
    states = model.align_states(*map(batch, texts), languages)
    for b, (source, target) in enumerate(zip(*texts)):
        _, u = encode(model, "lo", source)
        left, right = (decode(model, "zh", target, direction)[0] for direction in (0, 1))
        for i in range(len(target)):
            expected = (attend(left[i], u) + attend(right[len(target) - 1 - i], u)) / 2
            torch.testing.assert_close(states.target_to_source[b, i, : len(source)], expected)
        torch.testing.assert_close(states.source_contextual[b, : len(source)], torch.stack(u))


@torch.no_grad()
def test_alone_in_a_batch_and_with_longer_padding():
    model, languages = tiny_aligner(), ("lo", "zh")
    texts = [sentences(side, language) for side, language in enumerate(languages)]
    together = model.align_states(batch(texts[0], extra=4), batch(texts[1], extra=2), languages)
    for b, (source, target) in enumerate(zip(*texts)):
        alone = model.align_states(batch([source]), batch([target]), languages)
        for name, value in alone.items():
            found = together[name][b]
            inside = tuple(slice(0, n) for n in value[0].shape)
            torch.testing.assert_close(found[inside], value[0], rtol=0, atol=1e-6)
            assert found.abs().sum().item() == pytest.approx(value.abs().sum().item(), rel=1e-5)  # zero at padding
    mixed = model.pair_loss(*map(batch, texts), languages)
    padded = model.pair_loss(batch(texts[0], extra=3), batch(texts[1], extra=1), languages)
    assert padded.loss.item() == pytest.approx(mixed.loss.item(), rel=1e-6)


@torch.no_grad()
def test_words_under_the_mask_do_not_matter():
    model = tiny_aligner()
    side = batch(sentences(0, "lo"), extra=1)
    dirty = side | {"word_ids": side["word_ids"] + 5 * (1 - side["mask"])}
    target = batch(sentences(1, "zh"))
    assert model.pair_loss(dirty, target, ("lo", "zh")).loss == model.pair_loss(side, target, ("lo", "zh")).loss


@pytest.mark.parametrize("p", [0.5, 0.1])
def test_dropout_drops_its_share_and_keeps_the_mean(p):
    torch.manual_seed(0)
    ones = torch.ones(200, 501, requires_grad=True)
    dropped = fast_dropout(ones, p, True)
    kept = dropped != 0
    assert kept.float().mean().item() == pytest.approx(1 - p, abs=0.01)
    assert dropped.mean().item() == pytest.approx(1, abs=0.01)
    dropped.sum().backward()
    assert torch.equal(ones.grad, dropped.detach())
    assert not torch.equal(kept, fast_dropout(ones, p, True) != 0)
    assert fast_dropout(ones, p, False) is ones


def test_every_parameter_of_the_pair_learns():
    model = tiny_aligner(dropout=0.5, negatives="inter+intra").train()
    model.pair_loss(batch(sentences(0, "lo")), batch(sentences(1, "zh")), ("lo", "zh")).loss.backward()
    for name, parameter in model.named_parameters():
        if "of_to" in name:
            assert parameter.grad is None
        else:
            assert parameter.grad.abs().sum() > 0, name


@torch.no_grad()
def test_vectors_of_a_forward_pass():
    model = tiny_aligner()
    side = batch(sentences(0, "lo"))
    output = model(side["word_ids"], side["mask"], "lo")
    torch.testing.assert_close(output.static[0, :3], model.static_table("lo")[side["word_ids"][0, :3]])
    mean = torch.stack([u[: len(row)].mean(0) for u, row in zip(output.last_hidden_state, sentences(0, "lo"))])
    torch.testing.assert_close(output.sentence_embedding, mean / mean.norm(dim=1, keepdim=True))
    assert torch.equal(model(side["word_ids"], language="lo", return_dict=False)[2], output.sentence_embedding)


@torch.no_grad()
@pytest.mark.parametrize("layers", [1, 2])
def test_saved_and_loaded(tmp_path, layers, capfd):
    model = tiny_aligner(layers=layers)
    model.save_pretrained(tmp_path)
    loaded = AlignerModel.from_pretrained(tmp_path)
    sides = batch(sentences(0, "to")), batch(sentences(1, "zh"))
    assert torch.equal(loaded.pair_loss(*sides, ("to", "zh")).loss, model.pair_loss(*sides, ("to", "zh")).loss)
    assert "REPORT" not in "".join(capfd.readouterr())


def test_contrastive_loss_by_hand():
    query, key = torch.eye(3), torch.eye(3)
    positive = math.exp(1 / 0.5)
    assert multi_view_contrastive_loss(query, key).item() == pytest.approx(-math.log(positive / (positive + 2)))
    both = multi_view_contrastive_loss(query, key, query).item()
    assert both == pytest.approx(-math.log(positive / (positive + 4)))
    assert multi_view_contrastive_loss(torch.ones(4, 2), torch.ones(4, 2), torch.ones(4, 2)).item() == pytest.approx(
        math.log(7)
    )
    assert multi_view_contrastive_loss(torch.ones(1, 2), -torch.ones(1, 2), torch.ones(1, 2)).item() == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 7}, "size=7: give an even number"),
        ({"layers": 0}, "layers=0"),
        ({"dropout": 1.0}, "dropout=1.0 is outside"),
        ({"temperature": 0}, "temperature=0 > 0"),
        ({"negatives": "all"}, "negatives='all' is not one of inter, inter\\+intra"),
        ({"contrastive_pooling": "mean"}, "is not one of avg, max"),
        ({"languages": ["lo"]}, "give one size for each of languages"),
    ],
)
def test_settings_that_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        AlignerConfig(**{"vocab_sizes": SIZES} | settings)


def test_a_language_the_model_lacks():
    with pytest.raises(ValueError, match=r"language='vi' is not one of this model's: lo, zh, to"):
        tiny_aligner()(batch([[4]])["word_ids"], language="vi")
