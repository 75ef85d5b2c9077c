// SPDX-License-Identifier: MIT

//! The libraries and the functions that a library for `LD_PRELOAD` may need.

use object::elf::{FileHeader64, DT_NEEDED};
use object::read::elf::{Dyn, FileHeader};
use object::{Endianness, Object, ObjectSymbol};
use std::path::Path;

/// Functions and variables that glibc, and musl from 1.2.3 on, have.
const COMMON: &str = "
    __errno_location __progname __xpg_strerror_r abort bcmp calloc clock_gettime close
    dl_iterate_phdr dlsym fcntl fnmatch free fstat fstat64 getauxval getcwd getenv geteuid
    getpeername getpid getsockname getsockopt ioctl kill lseek64 lstat madvise malloc memcpy
    memfd_create memmove memset mincore mkdir mmap mmap64 mprotect mremap munmap open open64
    posix_memalign ppoll prctl pread program_invocation_short_name pthread_attr_destroy
    pthread_attr_init pthread_attr_setstacksize pthread_create pthread_detach pthread_key_create
    pthread_key_delete pthread_setspecific pthread_sigmask read readlink realloc
    realpath sched_yield sendto setenv setsockopt sigaddset sigemptyset sigfillset sigismember
    sigpending sigtimedwait stat64 strlen syscall sysconf unshare usleep write writev
";

/// Compares a library's needs with these.
pub(crate) fn check(library: &Path) {
    let bytes = std::fs::read(library).expect("it is built");
    let libraries = libraries(&bytes);
    let libc = |name: &String| name.starts_with("libc.so");
    assert!(
        libraries.len() == 1 && libraries.iter().all(libc),
        "{} needs {libraries:?}",
        library.display()
    );
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let missing: Vec<_> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_undefined() && !symbol.is_weak())
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| !name.is_empty() && !COMMON.split_whitespace().any(|known| known == *name))
        .collect();
    assert!(
        missing.is_empty(),
        "{} needs {missing:?}",
        library.display()
    );
}

fn libraries(bytes: &[u8]) -> Vec<String> {
    let header = FileHeader64::<Endianness>::parse(bytes).expect("an ELF file");
    let endian = header.endian().expect("it has one");
    let sections = header.sections(endian, bytes).expect("it has sections");
    let (entries, strings) = sections
        .dynamic(endian, bytes)
        .expect("it is readable")
        .expect("it is a library");
    let strings = sections
        .strings(endian, bytes, strings)
        .expect("it has strings");
    entries
        .iter()
        .filter(|entry| entry.tag32(endian) == Some(DT_NEEDED))
        .map(|entry| {
            let name = entry.string(endian, strings).expect("a name");
            String::from_utf8_lossy(name).into_owned()
        })
        .collect()
}
