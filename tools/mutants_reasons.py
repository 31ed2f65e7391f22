"""Why a mutant of `mutants.py` may survive, by its id."""

REASONS = {
    # losses.py: of_w = ... if learn or ctx.needs_input_grad[1]
    "2d9aed78d3": "equivalent but for the time: the slope of weights that want none is made and thrown away",
    # closed_form.py: if len(both) > both.shape[1]
    "8ed655a00d": "equivalent: where both products are equally large, both have the same directions",
    # prior.py: before = start * start.sum(...)
    "04203d1a93": "equivalent: the first step divides by its own sum, whatever factor all of it has",
    # blocks.py: _searched(..., backward=True)
    "70180bd30f": "equivalent but for the time: of both directions found the first is taken",
    # lexical_vectors.py: if end - start < most
    "cae41e9d6b": "equivalent: of as many as are kept the largest are all",
    # static.py: if max(linked.shape) <= _EXACT
    "52e27fdc89": "equivalent but for the time: which of two factorisations that agree runs",
    # neighbours.py: x.astype(np.float64, copy=True)
    "f3f680bd89": "equivalent but for the time: a copy that nobody writes to",
    # lexical/evaluate.py: zip(given[:3], given[2])
    "cec254e83c": "equivalent: zip ends with the shorter, which has two",
    # lexical/train.py: np.linspace(1, count - 1, ...)
    "846e0a46d0": "another evenly spaced sample of sentences, as good as this one",
}
