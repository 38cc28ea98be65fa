"""Configurations: they are found, every one of them composes, and mistakes in them become one line."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict, Unpack

import pytest
from omegaconf import DictConfig, OmegaConf

from trinity import config
from trinity.config import build, check, dotted_keys, find_configs, group_options, schema_keys, weight_sources
from trinity.errors import ConfigError, DataError

CONF = Path(__file__).parents[1] / "conf"
OPTIONS = [(file.parent.name, file.stem) for file in sorted(CONF.glob("*/*.yaml")) if file.parent.name != "experiment"]
EXPERIMENTS = sorted(file.stem for file in CONF.glob("experiment/*.yaml"))
ENVIRONMENT = re.compile(r"\$\{oc\.env:(\w+)\}")
LIST_GROUPS = ("task", "method")


@dataclass
class Target:
    """Something a configuration can build."""

    size: int
    extra: Any = None


class Broken:
    """Something whose constructor refuses with the suite's own error."""

    def __init__(self, size: int = 0) -> None:
        raise DataError(f"size {size} is gone")


class Rest(TypedDict, total=False):
    """Settings that several classes share."""

    times: int | None


class Sharing:
    """Something that takes them besides its own."""

    def __init__(self, *, size: int = 0, **rest: Unpack[Rest]) -> None:
        self.given = (size, rest)


class Needed(TypedDict):
    """Settings of which one must be given."""

    seed: int
    path: NotRequired[str]


class Needing:
    """Something that takes them."""

    def __init__(self, **rest: Unpack[Needed]) -> None:
        self.given = rest


def node(**keys: Any) -> DictConfig:
    """A node at the place `part` of a configuration; `target` is a name of this module."""
    target = keys.pop("target", "Target")
    part: DictConfig = OmegaConf.create({"part": {"_target_": f"{__name__}.{target}", **keys}}).part
    return part


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endpoints named by the environment exist, so that every pool composes."""
    for file in CONF.glob("*/*.yaml"):
        for name in ENVIRONMENT.findall(file.read_text("utf-8")):
            monkeypatch.setenv(name, "http://127.0.0.1:9")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_composes(name: str, compose_config: Any) -> None:
    """An experiment file yields a complete configuration under its own name."""
    cfg = compose_config(f"+experiment={name}")
    check(cfg)
    assert cfg.name == name


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_option_composes(group: str, option: str, compose_config: Any) -> None:
    """Each option of each group can be chosen, and what it names is not empty."""
    cfg = compose_config(f"{group}=[{option}]" if group in LIST_GROUPS else f"{group}={option}")
    check(cfg)
    assert cfg[f"{group}s"] if group in LIST_GROUPS else cfg[group]


def test_experiments_are_complete_without_the_command_line(compose_config: Any) -> None:
    """The defaults alone are a run."""
    cfg = compose_config()
    check(cfg)
    assert set(cfg) == {key for key in schema_keys() if "." not in key}


def test_a_reference_shapes_tables_and_no_episode(compose_config: Any) -> None:
    """Jobs with other references are other jobs, and a resumed run keeps its own: tables are results."""
    cfg = compose_config("analysis.reference=cot", "analysis.models_without=[task_only]")
    check(cfg)
    assert cfg.analysis == {"reference": "cot", "models_without": ["task_only"], "ratios_to": []}
    assert not config.within("analysis.reference", config.SHAPELESS)


def test_configs_are_found_in_a_checkout() -> None:
    """Beside the package lies conf."""
    assert find_configs() == CONF


def test_configs_are_found_in_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside the package conf goes before a stranger's folder of that name beside it."""
    for folder in ("trinity/conf", "conf"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "config.yaml").write_text("")
    monkeypatch.setattr(config, "__file__", str(tmp_path / "trinity" / "config.py"))
    assert find_configs() == tmp_path / "trinity" / "conf"


def test_missing_configs_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken installation is named with its folder."""
    monkeypatch.setattr(config, "__file__", str(tmp_path / "trinity" / "config.py"))
    with pytest.raises(ConfigError, match=re.escape(str(tmp_path))):
        find_configs()


def test_group_options() -> None:
    """The options of a group are its files, those of '' the groups."""
    assert "sep_cma_es" in group_options("trainer")
    assert {"pool", "task", "method", "experiment"} <= set(group_options(""))
    assert group_options("nothing") == []


def test_dotted_keys_do_not_resolve() -> None:
    """Keys are listed without following interpolations or stumbling over missing values."""
    cfg = OmegaConf.create({"a": {"b": "${nowhere}", "c": "???", "d": [1]}, "e": None})
    assert dotted_keys(cfg) == ["a", "a.b", "a.c", "a.d", "e"]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed=-1", "seed=-1: must be at least 0"),
        ("data.n_test=0", r"data.n_test=0: must be at least 1"),
        ("eval.replicates=0", "eval.replicates=0"),
        ("concurrency=0", "concurrency=0"),
        ("name=a/b", "name=a/b: names a folder"),
        ("name=..", r"name=\.\.: names a folder"),
        ("weights.sources=[hubb]", "weights.sources: there is no 'hubb'; choose from: path, hub, pypi"),
        ("weights.sources=hub pypy", "weights.sources: there is no 'pypy'"),
        ("weights.sources=null", "weights.sources is None; give a list"),
        ("weights.sources=3", "weights.sources is 3; give a list"),
        ("cost_axis=USD", "cost_axis: there is no 'USD'; choose from: usd, gflop, weighted_tokens"),
        ("analysis.reference=' '", "analysis.reference is empty; give the name of a method"),
        ("analysis.models_without=[best_single]", "analysis.models_without: best_single is the reference"),
        ("+analysis.ratio_to=[cot]", "there is no key 'analysis.ratio_to'; did you mean 'analysis.ratios_to'"),
        ("task=[]", r"tasks is empty; choose with task=NAME from: .*word_problems"),
        ("~pool", "pool is empty"),
        ("+sede=1", "there is no key 'sede'; did you mean 'seed'"),
        ("+data.n_tests=1", "there is no key 'data.n_tests'; did you mean 'data.n_test'"),
    ],
)
def test_values_out_of_range(override: str, message: str, compose_config: Any) -> None:
    """What types cannot say is refused with the key's name."""
    with pytest.raises(ConfigError, match=message):
        check(compose_config(override))


def test_open_groups_take_new_keys(compose_config: Any) -> None:
    """A group's content is its class's business, so a plus may add to it."""
    check(compose_config("+trainer.of_my_own=1", "+weights.paths.mine=/models/mine.gguf"))


def test_build_hands_arguments_over_untouched() -> None:
    """Keyword arguments are the very objects, though OmegaConf would copy or convert them."""
    extra = Target(1)
    built = build(node(size=3), extra=extra)
    assert built.size == 3
    assert built.extra is extra


def test_build_gives_plain_containers_and_nested_objects() -> None:
    """Lists and dictionaries arrive as Python's own, nested nodes as objects."""
    inner = {"_target_": f"{__name__}.Target", "size": 1}
    built = build(node(size=3, extra={"list": [1, {"a": 2}], "inner": inner}))
    assert built.extra == {"list": [1, {"a": 2}], "inner": Target(1)}
    assert type(built.extra["list"]) is list


def test_build_takes_shared_settings() -> None:
    """Keys of a typed `**rest` are arguments like others, and may be left out."""
    assert build(node(target="Sharing", size=3, times=None)).given == (3, {"times": None})
    assert build(node(target="Sharing")).given == (0, {})


def test_build_partial() -> None:
    """`_partial_: true` gives a factory that takes the rest later."""
    factory = build(node(extra=2, _partial_=True))
    assert isinstance(factory, functools.partial)
    assert factory(size=1) == Target(1, 2)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"size": 1, "exta": 2}, "part.exta: Target knows no such key; did you mean 'extra'"),
        ({}, "part: Target: missing a required argument: 'size'"),
        ({"extra": 1, "sze": 2, "_partial_": True}, "part.sze: Target knows no such key; did you mean 'size'"),
        ({"target": "Tarjet"}, "part: Error locating target '.*Tarjet'"),
        ({"target": "Sharing", "tmes": 2}, "part.tmes: Sharing knows no such key; did you mean 'times'"),
        ({"target": "Needing", "path": "here"}, "part: Needing: missing a required argument: 'seed'"),
        ({"target": "Needing", "seed": 1, "pth": "here"}, "part.pth: Needing knows no such key; did you mean 'path'"),
        ({"target": "Sharing", "times": "two"}, "part.times=two: must be a finite int or null"),
        (
            {"size": {"_target_": "nowhere.in_here.Thing"}},
            "part.size: Error .* 'nowhere.in_here.Thing': there is no package nowhere here; .* on PYTHONPATH",
        ),
        (
            {"size": {"_target_": "trinity.nowhere.Thing"}},
            "part.size: Error locating target 'trinity.nowhere.Thing': No module named 'trinity.nowhere'",
        ),
        ({"size": {"_target_": f"{__name__}.Target", "sze": 1}}, "part.size: .*unexpected keyword argument 'sze'"),
    ],
)
def test_build_names_the_mistake(keys: dict[str, Any], message: str) -> None:
    """A bad target or argument is named with its place in the configuration, in one line."""
    with pytest.raises(ConfigError, match=message) as caught:
        build(node(**keys))
    assert "\n" not in str(caught.value)
    assert "HYDRA_FULL_ERROR" not in str(caught.value)


def test_build_wants_a_target() -> None:
    """A node without `_target_` is no object."""
    with pytest.raises(ConfigError, match="part: has no _target_"):
        build(OmegaConf.create({"part": {"size": 1}}).part)


@pytest.mark.parametrize("keys", [{"target": "Broken"}, {"size": {"_target_": f"{__name__}.Broken"}}])
def test_build_lets_own_errors_through(keys: dict[str, Any]) -> None:
    """The suite's errors keep their class and text, also from a nested node."""
    with pytest.raises(DataError, match=r"^size 0 is gone$"):
        build(node(**keys))


@pytest.mark.parametrize("override", ["weights.sources=", "weights.sources=[]", "weights.sources=''"])
def test_all_sources_of_weights_can_be_left_out(override: str, compose_config: Any) -> None:
    """Each way to write no source at all is a valid configuration, which allows the cache alone."""
    cfg = compose_config(override)
    check(cfg)
    assert weight_sources(cfg.weights.sources) == ()


@pytest.mark.parametrize("override", ["weights.sources=[pypi,path]", "weights.sources='pypi, path'"])
def test_sources_of_weights_keep_their_order(override: str, compose_config: Any) -> None:
    """A list and a text name the sources in the order in which they are asked."""
    assert weight_sources(compose_config(override).weights.sources) == ("pypi", "path")


def test_a_file_of_weights_is_named_as_the_config_says(compose_config: Any) -> None:
    """The override in the comment of conf/config.yaml composes to one file for one model."""
    (override,) = re.findall(r"'(\+weights\.paths=.*)'", (CONF / "config.yaml").read_text("utf-8"))
    cfg = compose_config(override)
    check(cfg)
    assert cfg.weights.paths == {"smollm2-135m-instruct": "/models/x.gguf"}
