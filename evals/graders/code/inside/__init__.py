"""Scripts that run in the sandbox beside a candidate; they know nothing of the project there."""
