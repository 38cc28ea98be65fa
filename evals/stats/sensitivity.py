"""What the results owe to answers that hit their length cap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evals.stats.contrasts import Row, gains
from evals.stats.study import Study, cells


def truncation_rows(study: Study, reference: str) -> list[Row]:
    """Accuracy and difference to the reference of each method and backbone, however truncated answers are counted.

    Plain keys count them as wrong, as everywhere else; `_without` leaves these episodes out (an item whose episodes
    are all truncated with them), for both of a difference; `_raw` takes what grading their text alone gave, None
    unless that is known for all truncated episodes of the row (of both, for a difference).
    """
    raw = _raw(study)
    kinds = {"": study, "_without": study.subset(~study.truncated), "_raw": raw}
    accuracies = {kind: _accuracies(version) for kind, version in kinds.items()}
    differences = {kind: _differences(version, reference) for kind, version in kinds.items()}
    counts = study.replicates.sum(axis=2)
    truncated = study.subset(study.truncated).replicates.sum(axis=2)
    rows = []
    for method, backbone in cells(study):
        key = study.methods[method], study.backbones[backbone]
        names = {"method": key[0], "backbone": key[1]}
        numbers = {
            "n_episodes": int(counts[method, backbone]),
            "n_truncated": int(truncated[method, backbone]),
            **{f"accuracy{kind}": accuracies[kind].get(key) for kind in kinds},
            **{f"difference{kind}": differences[kind].get(key) for kind in kinds},
        }
        rows.append({**names, **numbers})
    return rows


def _raw(study: Study) -> Study:
    """The study with the raw score of truncated episodes, NaN where unknown."""
    raw = np.full(study.score.size, np.nan) if study.raw_score is None else study.raw_score
    return replace(study, score=np.where(study.truncated, raw, study.score))


def _accuracies(study: Study) -> dict[tuple[str, str], float | None]:
    """Mean score of each method and backbone over the items that were graded; None where a score is unknown."""
    scores = study.cube(study.score)
    graded = study.replicates > 0
    means = {}
    for method, backbone in cells(study):
        mean = float(np.mean(scores[method, backbone][graded[method, backbone]]))
        means[study.methods[method], study.backbones[backbone]] = mean if np.isfinite(mean) else None
    return means


def _differences(study: Study, reference: str) -> dict[tuple[str, str], float | None]:
    """Mean difference of each method and backbone to the reference; None where a score that it needs is unknown."""
    accuracies, gain = _accuracies(study), gains(study, reference)
    found = {}
    for place, (method, backbone, base) in enumerate(zip(gain.methods, gain.backbones, gain.references, strict=True)):
        known = base is not None and None not in (accuracies[method, backbone], accuracies[reference, base])
        values = gain.differences[:, place]
        values = values[np.isfinite(values)]
        found[method, backbone] = float(np.mean(values)) if known and values.size else None
    return found
