"""Mutation testing of rules and frames: which changes of their source do the rules' cases notice?

* `operators.py`: the mutants of a module's source, by operators for Columns: a dropped condition, branch or partition column, a shifted
  bound, min for max. General tools know neither `&` as "and" nor a branch.
* `loading.py`: executes a mutant and the modules that import it, beside the originals.
* `testing.py`: judges the cases with it. One pass over a frame evaluates thirty mutants of a rule, like rules of one frame.
* `explained.py`, `explained.toml`: mutants that no case can kill, and why.
* `__main__.py`: `python -m prove.mutants`.

Texts are not mutated: names of columns, sentences, reasons, pages.
"""
