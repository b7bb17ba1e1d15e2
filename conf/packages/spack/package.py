# SPDX-License-Identifier: BSD-3-Clause
"""The recipe of libcoll for Spack: `spack repo create`, and this file in packages/libcoll of that repository."""

from spack.package import *


class Libcoll(AutotoolsPackage):
    """Collective communication among the processes of a parallel program, in host memory and in
    the memory of CUDA devices, over backends that are chosen when the program starts."""

    homepage = "https://example.org/libcoll"
    url = "https://example.org/libcoll/libcoll-0.9.0.tar.gz"

    license("BSD-3-Clause", checked_by="libcoll")

    # Whoever publishes the recipe adds sha256="..." of the tarball.
    version("0.9.0")

    variant("ucx", default=True, description="Build the backend ucx")
    variant("sodium", default=True, description="Protect the messages of the backend tcp")
    variant("python", default=False, description="Build the package for Python")

    depends_on("c", type="build")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("inih")
    depends_on("libtool")  # libltdl
    depends_on("libsodium", when="+sodium")
    depends_on("ucx@1.13:1", when="+ucx")
    depends_on("python@3.9:", when="+python", type=("build", "run"))
    depends_on("py-setuptools", when="+python", type="build")

    extends("python", when="+python")

    def configure_args(self):
        args = ["--with-nccl=no", "--with-cuda=no"]
        args += [f"--with-ucx={self.spec['ucx'].prefix}" if "+ucx" in self.spec else "--with-ucx=no"]
        args += [
            f"--with-sodium={self.spec['libsodium'].prefix}"
            if "+sodium" in self.spec
            else "--with-sodium=no"
        ]
        return args

    @run_after("install", when="+python")
    def install_python(self):
        with working_dir("bindings/python"):
            env["PKG_CONFIG_PATH"] = join_path(self.prefix.lib, "pkgconfig")
            python("setup.py", "install", f"--prefix={self.prefix}", "--single-version-externally-managed", "--root=/")

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        make("installcheck")
