# SPDX-License-Identifier: BSD-3-Clause
"""Builds the package coll against the installed libcoll, which pkg-config finds."""

import os
import shlex
import subprocess

from setuptools import Extension, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70: the package wheel, if it is there
    try:
        from wheel.bdist_wheel import bdist_wheel
    except ImportError:
        bdist_wheel = None

FILES = ("array", "call", "comm", "error", "event", "info", "module", "op", "request")


def pkg_config(*flags):
    command = [os.environ.get("PKG_CONFIG", "pkg-config"), *flags, "coll"]
    return shlex.split(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def run_path():
    """The folder of libcoll, if the linker does not look there by itself: programs then need no LD_LIBRARY_PATH."""
    elsewhere = pkg_config("--libs-only-L")
    return [f"-Wl,-rpath,{path}" for path in pkg_config("--variable=libdir") if elsewhere]


COMMANDS = {}
if bdist_wheel:
    class AbiWheel(bdist_wheel):
        """One wheel for every Python 3 from 3.9 on: the extension uses the limited API alone."""

        def finalize_options(self):
            self.py_limited_api = "cp39"
            super().finalize_options()

    COMMANDS["bdist_wheel"] = AbiWheel

setup(
    name="coll",
    version=pkg_config("--modversion")[0],
    description="Collective communication on host and device arrays: libcoll for Python",
    license="BSD-3-Clause",
    python_requires=">=3.9",
    packages=["coll"],
    package_data={"coll": ["py.typed", "_core.pyi"]},
    ext_modules=[
        Extension(
            "coll._core",
            [f"extension/{name}.c" for name in FILES],
            depends=["extension/abi.h", "extension/core.h"],
            define_macros=[("Py_LIMITED_API", "0x03090000")],
            py_limited_api=True,
            extra_compile_args=["-std=c11", "-Wall", "-Wextra", *pkg_config("--cflags")],
            extra_link_args=[*pkg_config("--libs"), *run_path()],
        )
    ],
    cmdclass=COMMANDS,
)
