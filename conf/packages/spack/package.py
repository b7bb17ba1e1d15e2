# SPDX-License-Identifier: BSD-3-Clause
"""The recipe of libcoll for Spack: this file is packages/libcoll/package.py of a repository."""

from spack.package import *


class Libcoll(AutotoolsPackage):
    """Collective communication among the processes of a parallel program, in host memory and in
    the memory of CUDA devices, over backends that are chosen when the program starts."""

    homepage = "https://example.org/libcoll"
    url = "https://example.org/libcoll/libcoll-0.9.0.tar.gz"

    license("BSD-3-Clause AND CC-BY-SA-3.0")

    # Whoever publishes the recipe adds sha256="..." of the tarball.
    version("0.9.0")

    variant("ucx", default=True, description="Build the backend ucx")
    variant("sodium", default=True, description="Protect the messages of the backend tcp")
    variant("mpi", default=False, description="Build the backend mpi for an MPI without the ABI")
    variant("python", default=False, description="Build the package for Python")

    depends_on("c", type="build")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("inih")
    depends_on("libtool")  # libltdl
    depends_on("libsodium", when="+sodium")
    depends_on("ucx@1.13:1", when="+ucx")
    depends_on("mpi", when="+mpi")
    depends_on("python@3.9:", when="+python", type=("build", "run"))
    depends_on("py-setuptools", when="+python", type="build")

    extends("python", when="+python")

    def configure_args(self):
        args = ["--with-nccl=no", "--with-cuda=no"]
        args += self.with_or_without("ucx", activation_value="prefix")
        args += self.with_or_without(
            "sodium", activation_value=lambda _: self.spec["libsodium"].prefix
        )
        if self.spec.satisfies("+mpi"):
            args.append(f"--with-mpi={self.spec['mpi'].mpicc}")
        return args

    @run_after("install", when="+python")
    def install_python(self):
        with working_dir("bindings/python"):
            python(
                "setup.py",
                "install",
                f"--prefix={self.prefix}",
                "--single-version-externally-managed",
                "--root=/",
                extra_env={"PKG_CONFIG_PATH": join_path(self.prefix.lib, "pkgconfig")},
            )

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        make("installcheck")
