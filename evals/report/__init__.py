"""From the records of a run to its summary, tables, plots and report."""
