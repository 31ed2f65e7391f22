"""Why a mutant of `mutants.py` may survive, by its id."""

REASONS = {
    # closed_form.py: if len(both) > both.shape[1]
    "8ed655a00d": "equivalent: where both products are equally large, both have the same directions",
    # prior.py: before = start * start.sum(...)
    "04203d1a93": "equivalent: the first step divides by its own sum, whatever factor all of it has",
    # blocks.py: _searched(..., backward=True)
    "70180bd30f": "equivalent but for the time: of both directions found the first is taken",
    # fusion.py: json.dumps(..., ensure_ascii=True)
    "a0d52915a3": "equivalent to any reader of JSON; people see escapes",
}
