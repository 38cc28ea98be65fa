"""How a run is kept: its ledger, records, manifest and checkpoints."""
