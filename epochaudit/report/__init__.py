"""Output formats: one module each, all rendering the same `epochaudit.report.contents.Report`."""
