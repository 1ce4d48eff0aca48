"""The command line: options, settings, exit codes, and where output goes."""
