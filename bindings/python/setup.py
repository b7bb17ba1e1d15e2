# SPDX-License-Identifier: BSD-3-Clause
"""Builds the package coll against the installed libcoll, which pkg-config finds.

With COLL_BUNDLE=yes in the environment the package carries copies of that library and its plugins.
"""

import glob
import os
import shlex
import shutil
import subprocess

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70: the package wheel, if it is there
    try:
        from wheel.bdist_wheel import bdist_wheel
    except ImportError:
        bdist_wheel = None

BUNDLE = os.environ.get("COLL_BUNDLE") == "yes"
FILES = ("array", "call", "comm", "error", "event", "info", "memory", "module", "op", "request")


def pkg_config(*flags):
    command = [os.environ.get("PKG_CONFIG", "pkg-config"), *flags, "coll"]
    return shlex.split(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def run_path():
    """The folder of libcoll, if the linker does not look there by itself: programs then need no LD_LIBRARY_PATH."""
    if BUNDLE:
        return ["-Wl,-rpath,$ORIGIN/lib"]
    elsewhere = pkg_config("--libs-only-L")
    return [f"-Wl,-rpath,{path}" for path in pkg_config("--variable=libdir") if elsewhere]


class BuildPy(build_py):
    """Also copies the library and its plugins, if the package carries them."""

    def run(self):
        super().run()
        if BUNDLE:
            folder = os.path.join(self.build_lib, "coll", "lib")
            os.makedirs(os.path.join(folder, "plugins"), exist_ok=True)
            shutil.copy(os.path.join(pkg_config("--variable=libdir")[0], "libcoll.so.1"), folder)
            for plugin in glob.glob(os.path.join(pkg_config("--variable=plugindir")[0], "coll_*.so")):
                shutil.copy(plugin, os.path.join(folder, "plugins"))


COMMANDS = {"build_py": BuildPy}
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
