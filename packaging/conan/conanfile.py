"""Conan 2 recipe: builds the checkout that it lies in.

conan create packaging/conan --build=missing -s compiler.cppstd=20
"""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

required_conan_version = ">=2.4"


class TunesmithConan(ConanFile):
    """libtunesmith.so, its headers and the command line; NVRTC and the driver are opened at run time."""

    name = "tunesmith"
    description = "CUDA kernels specialized, compiled, tuned and cached at run time"
    license = "Apache-2.0"
    topics = ("cuda", "jit", "softmax", "cross-entropy", "attention")
    package_type = "shared-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"remote_cache": [True, False]}  # noqa: RUF012  (Conan copies it)
    default_options = {"remote_cache": False, "boost/*:without_context": False}  # noqa: RUF012

    @property
    def _checkout(self):
        return os.path.join(self.recipe_folder, os.pardir, os.pardir)

    def set_version(self):
        header = load(self, os.path.join(self._checkout, "core", "include", "tunesmith", "version.h"))
        self.version = re.search(r'TUNESMITH_VERSION "(.+)"', header).group(1)

    def export_sources(self):
        files = ["CMakeLists.txt", "LICENSE"]
        folders = ["cmake", "core", "templates", "jit", "cache", "fleet", "tuner", "api"]
        for pattern in [*files, *(f"{folder}/*" for folder in folders)]:
            copy(self, pattern, self._checkout, self.export_sources_folder, excludes=["api/python/*", "*.pyc"])

    def requirements(self):
        self.requires("sqlite3/[>=3.37 <4]")
        self.requires("boost/[>=1.74 <2]")
        self.requires("nlohmann_json/[>=3.10 <4]")
        self.requires("cli11/[>=2.1 <3]")
        self.requires("xxhash/[>=0.8 <1]")
        if self.options.remote_cache:
            self.requires("hiredis/[>=1.0 <2]")
            self.requires("openssl/[>=3 <4]")
            self.requires("zlib/[>=1.2 <2]")

    def build_requirements(self):
        self.tool_requires("cmake/[>=3.25 <5]")

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["TUNESMITH_BUILD_TESTS"] = False
        toolchain.cache_variables["TUNESMITH_BUILD_BENCH"] = False
        toolchain.cache_variables["TUNESMITH_REMOTE"] = "ON" if self.options.remote_cache else "OFF"
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        # Conan generates these for its consumers.
        rmdir(self, os.path.join(self.package_folder, "lib", "cmake"))
        rmdir(self, os.path.join(self.package_folder, "lib", "pkgconfig"))
        rmdir(self, os.path.join(self.package_folder, "share", "doc"))

    def package_info(self):
        self.cpp_info.libs = ["tunesmith"]
        self.cpp_info.resdirs = ["share"]
