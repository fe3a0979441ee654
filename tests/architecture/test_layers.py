"""The tree is what ARCHITECTURE.md says: every module stands in one layer, and the bottom ones run alone."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
ROOT_PACKAGES = ("laissez", "markets", "tenants", "workers")
TENANTS_PROGRAMS = {"text_classifier", "vision_transformer"}
"""Folders under `laissez/demo` that the demo submits as jobs: programs of tenants', not modules of the project."""
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
SPONGES = {"utils", "helpers", "common", "core", "misc"}


def modules() -> list[str]:
    """Every module of the project by its dotted name."""
    files = [path for package in ROOT_PACKAGES for path in (ROOT / package).rglob("*.py")]
    parts = [path.relative_to(ROOT).with_suffix("").parts for path in files]
    programs = [names for names in parts if names[:2] == ("laissez", "demo") and TENANTS_PROGRAMS & set(names)]
    return sorted(".".join(names).removesuffix(".__init__") for names in parts if names not in programs)


def layers() -> list[list[str]]:
    """The modules that each layer names, top to bottom."""
    (contract,) = [contract for contract in CONTRACTS if contract["type"] == "layers"]
    return [[name.strip(" ()") for name in re.split("[|:]", layer)] for layer in contract["layers"]]


def layers_of(module: str) -> list[int]:
    """The layers in which a module stands, by number from the top."""
    return [
        number
        for number, names in enumerate(layers())
        for name in names
        if module == name or module.startswith(name + ".")
    ]


@pytest.mark.parametrize("module", [module for module in modules() if module not in ROOT_PACKAGES])
def test_every_module_stands_in_exactly_one_layer(module: str) -> None:
    assert len(layers_of(module)) == 1, f"name {module} in one layer of the import contract in pyproject.toml"


@pytest.mark.parametrize("package", ROOT_PACKAGES)
def test_a_root_package_holds_nothing_itself(package: str) -> None:
    source = (ROOT / package / "__init__.py").read_text()
    assert not re.search(r"^\s*(import|from|def|class) ", source, re.MULTILINE)


def test_no_contract_ignores_an_import() -> None:
    assert not [contract["id"] for contract in CONTRACTS if "ignore_imports" in contract]


def test_no_module_is_a_sponge() -> None:
    assert not [module for module in modules() if SPONGES & set(module.split("."))]


@pytest.mark.parametrize(
    ("module", "strangers"),
    [
        ("laissez.sdk", {"django", "httpx", "numpy", "markets", "workers", "tenants"}),
        ("laissez.sdk.cli", {"django", "numpy", "markets", "workers", "tenants"}),
        ("laissez.stack.product", {"django", "celery", "redis", "psycopg", "markets", "workers", "tenants"}),
        ("markets.engine.dynamics", {"django", "celery", "laissez", "workers", "tenants"}),
        ("markets.simulation.simulator", {"django", "celery", "workers", "tenants"}),
        ("workers.host.daemon", {"django", "celery", "redis", "psycopg", "markets", "tenants"}),
    ],
)
def test_what_runs_elsewhere_loads_nothing_of_the_server(module: str, strangers: set[str]) -> None:
    code = f"import sys, {module}; print(*sorted({strangers!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
