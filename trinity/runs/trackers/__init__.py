"""Where a run's progress and results are shown besides its folder, which stays the record of truth."""
