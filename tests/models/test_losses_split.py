"""The disentangler's loss terms against slow loops written from the equations."""

import pytest
import torch
from torch import nn

from hfxling.models.losses import SPLIT_LOSSES, split_losses


def vectors(rows=7, size=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(rows, 2, size, generator=generator, dtype=torch.float64) for _ in range(2)]


def cos(a, b):
    return (a @ b / (a.norm() * b.norm())).squeeze()


def slow_terms(e, m, has_partner, both_sides):
    """Equations 1 to 4, pair by pair."""
    language, rows = e - m, [i for i in range(len(e) - 1) if has_partner[i]]
    totals = [torch.zeros((), dtype=e.dtype) for _ in SPLIT_LOSSES]
    for i in rows:
        (e_x, e_y), (m_x, m_y), (l_x, l_y) = e[i], m[i], language[i]
        (m_xj, m_yj), (l_xj, l_yj) = m[i + 1], language[i + 1]
        totals[0] = totals[0] + 2 * (1 - cos(m_x, m_y)) + (cos(m_x, m_xj) + cos(m_y, m_yj)).clamp(min=0)
        totals[1] = totals[1] + 2 - cos(l_x, l_xj) - cos(l_y, l_yj)
        totals[2] = totals[2] + 4 - cos(e_x, m_y + l_x) - cos(e_y, m_x + l_y)
        totals[2] = totals[2] - cos(e_x, m_x + l_xj) - cos(e_y, m_y + l_yj)
        totals[3] = totals[3] + cos(m_x, l_x).clamp(min=0)
        if both_sides:
            totals[3] = totals[3] + cos(m_y, l_y).clamp(min=0)
    return torch.stack(totals) / len(rows)


MASK = torch.tensor([True, True, False, True, True, True])


@pytest.mark.parametrize("both_sides", [False, True])
@pytest.mark.parametrize("has_partner", [None, MASK])
def test_every_term_and_its_gradient_equal_a_slow_loop(has_partner, both_sides):
    e, m = vectors()
    mask = torch.ones(6, dtype=torch.bool) if has_partner is None else has_partner
    found_inputs, slow_inputs = ([x.clone().requires_grad_() for x in (e, m)] for _ in range(2))
    found = split_losses(*found_inputs, has_partner, both_sides=both_sides)
    slow = slow_terms(*slow_inputs, mask, both_sides)
    assert torch.allclose(found, slow, atol=1e-10)
    for term in range(4):
        weight = torch.eye(4, dtype=torch.float64)[term]
        for x, y in zip(found_inputs, slow_inputs):
            (a,) = torch.autograd.grad(split_losses(*found_inputs, has_partner, both_sides=both_sides) @ weight, x)
            (b,) = torch.autograd.grad(slow @ weight, y, retain_graph=True, allow_unused=True)
            assert torch.allclose(a, torch.zeros_like(a) if b is None else b, atol=1e-10), (SPLIT_LOSSES[term],)


def test_the_terms_of_a_perfect_split_are_zero():
    meaning = torch.eye(6)[:3].repeat_interleave(2, 0).view(3, 2, 6)
    language = torch.stack([torch.eye(6)[4], torch.eye(6)[5]]).expand(3, 2, 6)
    assert torch.allclose(split_losses(meaning + language, meaning), torch.zeros(4), atol=1e-6)


def test_a_row_without_partner_gives_nothing():
    e, m = vectors(rows=1)
    m.requires_grad_()
    terms = split_losses(e, m)
    assert torch.equal(terms, torch.zeros(4, dtype=terms.dtype))
    assert torch.equal(torch.autograd.grad(terms.sum(), m)[0], torch.zeros_like(m))


def test_memory_that_was_never_written_does_not_matter():
    """PyTorch fills new memory with NaN here, where it may otherwise happen to hold zeros."""
    inputs = [x.requires_grad_() for x in vectors()]
    torch.use_deterministic_algorithms(True)
    try:
        terms = split_losses(*inputs)
        slopes = torch.autograd.grad(terms.sum(), inputs)
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.isfinite(x).all() for x in (terms, *slopes))


def test_equal_parts_have_a_finite_gradient():
    """A language part of zero length has no direction: its cosines are zero, not NaN."""
    e, _ = vectors()
    m = e.clone().requires_grad_()
    terms = split_losses(e, m)
    terms.sum().backward()
    assert torch.isfinite(terms).all()
    assert torch.isfinite(m.grad).all()


def test_float32_and_bfloat16_autocast_stay_close():
    e, _ = vectors(rows=40, size=32)
    e = e.float()
    linear = nn.Linear(32, 32)
    exact = split_losses(e, linear(e))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = split_losses(e, linear(e))
    assert torch.allclose(exact, slow_terms(e.double(), linear(e).double(), [True] * 39, False).float(), atol=1e-5)
    assert torch.allclose(exact, cast, atol=2e-2)
    cast.sum().backward()
    assert linear.weight.grad.abs().sum() > 0
