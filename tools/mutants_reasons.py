"""Why a mutant of `mutants.py` may survive, by its id."""

REASONS = {
    # closed_form.py: if len(both) > both.shape[1]
    "3536a958f4": "equivalent: where both products are equally large, both have the same directions",
    # closed_form.py: values >= values[-1] * 1e-10
    "6496aaa3a0": "equivalent: no computed eigenvalue is that very number",
    # closed_form.py: fit_closed_form(..., progress=True)
    "53f551cd6e": "a bar where none was asked for; whoever fits a model says whether there is one",
    # blocks.py: rounding = 3.0**-8
    "f0b61229d7": "a tighter bound of bfloat16's rounding; with 28 spare neighbours no text was found that tells",
    # blocks.py: error += 2.0**7 * scale
    "cf58a2528d": "equivalent but for the time: more is looked at again than needs be",
    # blocks.py: search_blocks(..., backward=True)
    "c172585635": "equivalent but for the time: of both directions found the first is taken",
    # static.py: if max(linked.shape) <= _EXACT
    "8028d88d38": "equivalent but for the time: which of two factorisations that agree runs",
    # neighbours.py: x.astype(np.float64, copy=True), of either side
    "1642f94e05": "equivalent but for the time: a copy that nobody writes to",
    "d0bb47e942": "equivalent but for the time: a copy that nobody writes to",
    # lexical/train.py: np.linspace(1, count - 1, ...)
    "4dfabbb354": "another evenly spaced sample of sentences, as good as this one",
    # shards.py: write_table(..., use_dictionary=True)
    "25160ecbe6": "equivalent but for the size of a scratch file",
    # lexical_vectors.py: if start >= end
    "7e0f37a21a": "equivalent: an empty block between two parts",
    # lexical/evaluate.py: zip(models, folds, strict=False)
    "73ff475c6f": "guards against a caller that does not exist: every fold has its model",
    # static.py: if min(linked.shape) < _EXACT
    "26df8538c5": "equivalent but for the time: which of two factorisations that agree runs",
    # static.py: shortest_path(edges, directed=False, unweighted=False)
    "657bfbc731": "equivalent: every edge weighs 1",
    # precision.py: if abs(share - before) <= 1e-6
    "087a1d7699": "equivalent: no computed step is that very number",
    # grow.py: fit(..., static=True)
    "dc80e57df7": "equivalent but for the time: vectors that nobody reads",
    # impostors.py: reached >= needed
    "b474709f52": "differs only where the scores of two sentences are equal to the last bit",
}
