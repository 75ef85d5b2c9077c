// SPDX-License-Identifier: MIT

//! The library's version as a note of its file, in which `sdp_chk` finds it without running code of
//! the library.

const VERSION: &[u8] = env!("CARGO_PKG_VERSION").as_bytes();

/// The length with padding: the parts of a note are multiples of four bytes.
const PADDED_LEN: usize = VERSION.len().next_multiple_of(4);

/// An ELF note, as elf(5) describes it.
#[repr(C)]
struct Note {
    name_len: u32,
    version_len: u32,
    kind: u32,
    name: [u8; 4],
    version: [u8; PADDED_LEN],
}

#[expect(
    clippy::indexing_slicing,
    reason = "the compiler evaluates it, and reports an index out of bounds"
)]
const fn padded() -> [u8; PADDED_LEN] {
    let mut bytes = [0; PADDED_LEN];
    let mut at = 0;
    while at < VERSION.len() {
        bytes[at] = VERSION[at];
        at += 1;
    }
    bytes
}

// The linker keeps a section of notes, although nothing refers to it.
#[used]
#[link_section = ".note.sdp"]
static NOTE: Note = Note {
    name_len: 4,
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a version is a few bytes long"
    )]
    version_len: VERSION.len() as u32,
    kind: 1,
    name: *b"SDP\0",
    version: padded(),
};
