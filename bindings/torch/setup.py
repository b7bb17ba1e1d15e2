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


# PyTorch's own headers are not free of warnings.
SYSTEM_HEADERS = [flag for path in CppExtension("", []).include_dirs for flag in ("-isystem", path)]

extension = CppExtension(
    "coll_torch._C",
    ["coll_torch/process_group.cpp"],
    depends=[f"coll_torch/{name}.h" for name in ("barrier", "device", "memory", "versions", "work")],
    extra_compile_args=["-Wall", "-Wextra", *SYSTEM_HEADERS, *pkg_config("--cflags")],
    extra_link_args=pkg_config("--libs"),
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
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)},
)
