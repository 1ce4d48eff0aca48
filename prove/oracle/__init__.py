"""The oracle: a file per family of rules, one function per rule, without Spark and without code of frames or rules."""
