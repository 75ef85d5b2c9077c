# SPDX-License-Identifier: GPL-2.0
"""Tests of rust/packaging/: reports about unsuitable machines, and the places of installed files."""

import os
import pathlib
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
PACKAGING = TOP / "rust/packaging"

RUSTC = "rustc 1.85.1 (4eb161250 2025-03-15) (built from a source tarball)"
BINDGEN = "bindgen 0.71.1"
OPTIONS = [line for line in (PACKAGING / "options").read_text().split("\n") if line and not line.startswith("#")]


class Scene(unittest.TestCase):
    """A directory with a kernel tree, and fake programs."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)
        self.bin = self.path / "bin"
        self.bin.mkdir()
        self.program("rustc", f"echo '{RUSTC}'")
        self.program("bindgen", f"echo '{BINDGEN}'")
        self.program("gcc-14", "exit 0")
        self.program("make", "echo make was called >&2; exit 1")
        self.tree = self.path / "tree"
        self.write("tree/Makefile", "")
        self.release("7.3.4+deb13-amd64")
        self.options()
        self.write("tree/Module.symvers", "")
        self.write("tree/include/generated/rustc_cfg", "")

    def write(self, name, text):
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def program(self, name, text):
        self.write(f"bin/{name}", f"#!/bin/sh\n{text}\n").chmod(0o755)

    def release(self, name):
        self.write("tree/include/config/kernel.release", name + "\n")

    def options(self, *absent):
        lines = [f"CONFIG_{name}=y" for name in OPTIONS if name not in absent]
        lines += [f'CONFIG_RUSTC_VERSION_TEXT="{RUSTC}"', f'CONFIG_BINDGEN_VERSION_TEXT="{BINDGEN}"',
                  'CONFIG_CC_VERSION_TEXT="gcc-14 (Debian 14.2.0-19) 14.2.0"']
        self.write("tree/include/config/auto.conf", "\n".join(lines) + "\n")

    def run_script(self, *words, **environment):
        """The exit status and output of a script of rust/packaging/."""
        path = f"{self.bin}:/usr/sbin:/usr/bin:/sbin:/bin"
        done = subprocess.run([PACKAGING / words[0], *words[1:]], check=False, text=True, capture_output=True,
                              env={"PATH": path, "HOME": str(self.path), **environment})
        return done.returncode, done.stderr

    def refused(self, *wanted, **environment):
        """The module is not built, for this reason, and no compiler was called."""
        status, said = self.run_script("module", self.tree, self.path / "cache", self.path / "out", **environment)
        self.assertEqual(status, 1, said)
        for words in wanted:
            self.assertIn(words, said)
        self.assertNotIn("make was called", said)
        self.assertEqual(len(said.splitlines()), len(wanted), said)


class WhatDoesNotFit(Scene):
    def test_no_such_directory(self):
        self.tree = self.path / "nowhere"
        self.refused("no such directory")

    def test_no_kernel_tree(self):
        (self.tree / "Makefile").unlink()
        self.refused("not a kernel build tree")

    def test_not_configured(self):
        (self.tree / "include/config/auto.conf").unlink()
        self.refused("not configured and prepared")

    def test_not_prepared(self):
        (self.tree / "include/config/kernel.release").unlink()
        self.refused("not prepared (no include/config/kernel.release)")

    def test_another_version(self):
        for release in ("6.12.117+deb13-amd64", "7.30.1", "17.3"):
            self.release(release)
            self.refused(f"is of Linux {release}; this version of SDP supports Linux")

    def test_options(self):
        self.options("RUST", "INFINIBAND_ADDR_TRANS")
        self.refused("without CONFIG_RUST,", "without CONFIG_INFINIBAND_ADDR_TRANS,")

    def test_each_option_that_is_needed(self):
        self.assertIn("INFINIBAND", OPTIONS)
        self.options(*OPTIONS)
        self.refused(*(f"without CONFIG_{name}," for name in OPTIONS))

    def test_kbuild_names_what_is_missing(self):
        rules = self.write("rules", f"""
include {TOP}/rust/linux/needs.mk
all: ; @echo built
""")
        has = [f"CONFIG_{name}=y" for name in OPTIONS] + ["CONFIG_CC_VERSION_TEXT=gcc"]

        def made(*words):
            done = subprocess.run(["make", "-s", "-f", rules, *words], check=False, text=True, capture_output=True)
            return done.stdout + done.stderr

        self.assertEqual(made(*has), "built\n")
        self.assertEqual(made(), "built\n", "while there is no configuration")
        has.remove("CONFIG_64BIT=y")
        has.remove("CONFIG_INET=y")
        self.assertIn("SDP and rlo need a kernel with CONFIG_64BIT CONFIG_INET.", made(*has))

    def test_dkms_knows_them(self):
        status, said = self.run_script("dkms-source", self.path / "source")
        self.assertEqual(status, 0, said)
        made = (self.path / "source/dkms.conf").read_text()
        self.assertIn('BUILD_EXCLUSIVE_CONFIG="CONFIG_64BIT CONFIG_MODULES', made)
        self.assertNotIn("@", made)

    def test_compilers(self):
        self.program("rustc", "echo rustc 1.86.0")
        self.program("bindgen", "echo bindgen 0.72.0")
        self.refused(f'wrong rustc: the kernel was built with "{RUSTC}", this is "rustc 1.86.0"',
                     f'wrong bindgen: the kernel was built with "{BINDGEN}", this is "bindgen 0.72.0"')

    def test_compilers_that_fail(self):
        self.program("rustc", "echo error: no toolchain >&2; exit 1")
        self.refused(f'wrong rustc: the kernel was built with "{RUSTC}", this is "error: no toolchain"')

    def test_c_compiler(self):
        config = self.tree / "include/config/auto.conf"
        config.write_text(config.read_text().replace("gcc-14", "gcc-of-nobody"))
        self.refused("gcc-of-nobody is not installed")

    def test_a_tree_that_fits_is_built(self):
        for name in ("core", "compiler_builtins", "ffi", "bindings", "build_error", "kernel"):
            self.write(f"tree/rust/lib{name}.rmeta", "")
        self.write("tree/rust/libmacros.so", "")
        _, said = self.run_script("module", self.tree, self.path / "cache", self.path / "out")
        self.assertIn("make was called", said)


class Metadata(Scene):
    def setUp(self):
        super().setUp()
        self.write("tree/Makefile", "include /usr/src/linux-headers-7.3.4+deb13-common/Makefile\n")

    def packages(self, **versions):
        cases = "".join(f"*' {name.replace('_', '-')}'*) echo 'ii {version}';;\n" for name, version in versions.items())
        self.program("dpkg-query", f'case " $*" in\n{cases}*) exit 1;; esac')

    def test_of_another_distribution(self):
        self.write("tree/Makefile", "")
        self.refused("has no Rust metadata")

    def test_without_the_source(self):
        self.packages(linux_headers="7.3.4-1~bpo13+1")
        self.refused("apt install linux-source-7.3=7.3.4-1~bpo13+1")

    def test_source_of_another_version(self):
        self.packages(linux_headers="7.3.4-1", linux_source="7.3.5-1")
        # The archive of the source is searched in the directory of the packages.
        status, said = self.run_script("metadata", self.tree, self.path / "cache")
        self.assertEqual(status, 1)
        self.assertIn("7.3.4-1", said)

    def scenery(self, exported):
        """Everything that the metadata is made from; the kernel exports one Rust symbol."""
        version = "7.3.4-1"
        self.packages(linux_headers=version, linux_source=version)
        for name in ("kbuild/scripts/a", "kbuild/tools/a", "lib/rustlib/src/rust/library/core/src/lib.rs"):
            self.write(name, "")
        for name in ("scripts", "tools"):
            for tree in ("headers-common", "tree"):
                (self.path / tree).mkdir(exist_ok=True)
                (self.path / tree / name).symlink_to(self.path / "kbuild" / name)
        self.write("headers-common/Makefile", "")
        self.write("tree/Makefile", f"include {self.path}/headers-common/Makefile\n")
        self.write("tree/Module.symvers", f"0x0\t{exported}\tvmlinux\tEXPORT_SYMBOL_GPL\t\n")
        for name in ("rust/a", "drivers/base/base.h", "scripts/Makefile", "scripts/generate_rust_target.rs"):
            self.write(f"linux-source-7.3/{name}", "")
        subprocess.run(["tar", "-C", self.path, "-cJf", self.path / "linux-source-7.3.tar.xz", "linux-source-7.3"], check=True)
        self.program("rustc", f'[ "$1" != --print ] && echo "{RUSTC}" || echo {self.path}')
        self.program("make", 'cd "$3" && mkdir -p rust && echo "EXPORT_SYMBOL_RUST_GPL(_RNvmade);" >rust/exports_core_generated.h')

    def metadata(self):
        return self.run_script("metadata", self.tree, self.path / "cache", SOURCES=str(self.path))

    def test_the_symbols_of_the_kernel_are_accepted(self):
        self.scenery("_RNvmade")
        status, said = self.metadata()
        self.assertEqual(status, 0, said)
        self.assertIn("has 1 Rust symbols, the same", said)

    def test_other_symbols_are_refused(self):
        self.scenery("_RNvother")
        for _ in range(2):
            status, said = self.metadata()
            self.assertEqual(status, 1)
            self.assertIn("are not those that 7.3.4+deb13-amd64 exports", said)
            self.assertIn("_RNvother", said)

    def test_headers_of_no_package(self):
        self.packages()
        self.refused("the package linux-headers-7.3.4+deb13-amd64 is not installed")


class SecureBoot(Scene):
    def install(self, value, **environment):
        file = self.path / "efivars/SecureBoot-8be4df61"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(bytes((6, 0, 0, 0, value)))
        self.release(os.uname().release)
        return self.run_script("install-module", self.tree, "a.ko", "b.ko", EFIVARS=str(file.parent), **environment)

    def test_without_a_key_nothing_is_installed(self):
        status, said = self.install(1, SIGN_KEY="", SIGN_CERT="")
        self.assertEqual(status, 1)
        self.assertIn("Secure Boot, and there is no key", said)

    def test_a_tree_of_no_kernel_is_named(self):
        status, said = self.run_script("install-module", self.path, "a.ko", "b.ko", DESTDIR=str(self.path / "root"))
        self.assertEqual(status, 1)
        self.assertIn("is not a configured kernel build tree", said)

    def test_a_key_that_is_not_there_is_named(self):
        status, said = self.install(0, DESTDIR=str(self.path / "root"), SIGN_KEY="/no/key")
        self.assertEqual(status, 1)
        self.assertIn("SIGN_KEY=/no/key", said)


class Installation(Scene):
    def setUp(self):
        super().setUp()
        self.target = self.path / "target"
        self.root = self.path / "root"
        self.programs = [page.stem for page in (TOP / "docs/man").glob("*.8")]
        for name in (*self.programs, "libsdp.so", "libsdp_async.so"):
            self.write(f"target/release/{name}", name)

    def install(self, argument=None, prefix="/usr"):
        return self.run_script("install", argument or self.target, PREFIX=prefix, DESTDIR=str(self.root))

    def files(self):
        return {str(file.relative_to(self.root)) for file in self.root.rglob("*") if not file.is_dir()}

    def test_everything_comes_and_goes(self):
        self.write("target/completions/sdp_run.bash", "")
        self.assertEqual(self.install()[0], 0)
        found = self.files()
        self.assertLessEqual({"usr/lib/libsdp.so", "usr/lib/libsdp_async.so", "usr/include/linux/sdp.h",
                              "usr/include/linux/sdp_diag.h", "etc/libsdp.conf",
                              "usr/share/man/man7/sdp.7", "usr/lib/systemd/system/sdp@.service",
                              "usr/lib/systemd/system/rlo_bridge@.service",
                              "usr/share/bash-completion/completions/sdp_run",
                              *(f"usr/bin/{name}" for name in self.programs)}, found)
        units = self.root / "usr/lib/systemd/system"
        self.assertIn("ExecStart=/usr/bin/sdp_run", (units / "sdp@.service").read_text())
        # Not %I: it makes a slash of the dash in the names of Docker's bridges.
        self.assertIn("ExecStart=/usr/bin/rlo_bridge %i\n", (units / "rlo_bridge@.service").read_text())
        self.assertEqual(self.install("--uninstall")[0], 0)
        self.assertEqual(self.files(), set())

    def test_a_configuration_of_the_user_stays(self):
        conf = self.write("root/etc/libsdp.conf", "use tcp client * *:*\n")
        status, said = self.install()
        self.assertEqual((status, conf.read_text()), (0, "use tcp client * *:*\n"))
        self.assertIn("is kept", said)
        self.install("--uninstall")
        self.assertEqual(self.files(), {"etc/libsdp.conf"})

    def test_half_of_the_programs_is_none(self):
        (self.target / "release/libsdp.so").unlink()
        status, said = self.install()
        self.assertEqual(status, 1)
        self.assertIn("libsdp.so is missing: make tools", said)
        self.assertFalse(self.root.exists())

    def test_a_relative_prefix_is_refused(self):
        status, said = self.install(prefix="usr")
        self.assertEqual(status, 1)
        self.assertIn("must be absolute", said)


if __name__ == "__main__":
    unittest.main()
