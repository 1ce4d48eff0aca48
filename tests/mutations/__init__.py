"""Planted defects: for each rule, an operator that writes its defect into a healthy recorded capture.

An operator rewrites raw lines and records as Kafka would have written them had the defect happened, and states where the
rule has to find it. All copies are audited in one run, each as a cluster of its own: the defect has to be found, by its
rule, at that place, and nothing else may be found that the unchanged capture does not show.

`python -m tests.mutations` writes docs/mutations.md from such a run.
"""
