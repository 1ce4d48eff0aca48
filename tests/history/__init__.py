"""Histories of real bugs in Kafka, each on a release that has it and on one that is mended."""
