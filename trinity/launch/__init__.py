"""From a command line to configured jobs: everything that stands between the suite and Hydra."""
