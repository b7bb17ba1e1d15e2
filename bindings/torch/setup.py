# SPDX-License-Identifier: BSD-3-Clause
"""Builds coll_torch against the installed PyTorch and the installed libcoll, which pkg-config finds."""

import os
import shlex
import subprocess

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

HERE = os.path.dirname(os.path.abspath(__file__))


def pkg_config(*flags):
    command = [os.environ.get("PKG_CONFIG", "pkg-config"), *flags, "coll"]
    return shlex.split(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def run_path():
    """The folder of libcoll, if the linker does not look there by itself: programs then need no LD_LIBRARY_PATH."""
    elsewhere = pkg_config("--libs-only-L")
    return [f"-Wl,-rpath,{path}" for path in pkg_config("--variable=libdir") if elsewhere]


# PyTorch's own headers are not free of warnings.
SYSTEM_HEADERS = [flag for path in CppExtension("", []).include_dirs for flag in ("-isystem", path)]

extension = CppExtension(
    "coll_torch._C",
    ["coll_torch/process_group.cpp"],
    depends=[f"coll_torch/{name}.h" for name in ("barrier", "completer", "device", "memory", "versions", "work")],
    extra_compile_args=["-Wall", "-Wextra", *SYSTEM_HEADERS, *pkg_config("--cflags")],
    extra_link_args=[*pkg_config("--libs"), *run_path()],
)
extension.include_dirs = []

setup(
    name="coll_torch",
    version=subprocess.run(
        [os.environ.get("PKG_CONFIG", "pkg-config"), "--modversion", "coll"],
        check=True, stdout=subprocess.PIPE, text=True,
    ).stdout.strip(),
    description="PyTorch's torch.distributed over libcoll",
    license="BSD-3-Clause",
    packages=["coll_torch"],
    ext_modules=[extension],
    entry_points={"torch.backends": ["coll = coll_torch:autoload"]},
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)},
)
