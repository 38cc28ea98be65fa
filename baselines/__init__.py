"""The controls and baselines that a coordinator is compared with, one file a method."""
