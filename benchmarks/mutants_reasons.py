"""Why a mutant of `mutants.py` may survive, by its id."""

REASONS: dict[str, str] = {}
