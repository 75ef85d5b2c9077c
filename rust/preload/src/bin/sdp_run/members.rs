// SPDX-License-Identifier: MIT

//! The offset of a member of a kernel struct, from the kernel's own description of its types (BTF).
//! Only those parts of the format are parsed that this needs.

/// `None`: the description cannot be read, or lacks the member.
pub(crate) type Found<T> = Option<T>;

/// The sections of a description.
struct Sections<'a> {
    types: &'a [u8],
    strings: &'a [u8],
}

/// The number of bytes after the common words of a type, for each kind of type.
fn words_behind(kind: u32, count: usize) -> Found<usize> {
    Some(match kind {
        // The encoding of an integer, the linkage of a variable, the component index of a tag.
        1 | 14 | 17 => 4,
        // The description of an array; the members of a struct, a union or a section.
        3 => 12,
        4 | 5 | 15 | 19 => 12_usize.checked_mul(count)?,
        // The values of an enumeration, the parameters of a function.
        6 | 13 => 8_usize.checked_mul(count)?,
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

const STRUCT: u32 = 4;

fn word(bytes: &[u8], at: usize) -> Found<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn sections(btf: &[u8]) -> Found<Sections<'_>> {
    const MAGIC: u16 = 0xeb9f;

    let magic = u16::from_ne_bytes(btf.get(..2)?.try_into().ok()?);
    if magic != MAGIC {
        return None;
    }
    let number = |at| usize::try_from(word(btf, at)?).ok();
    let body = btf.get(number(4)?..)?;
    let part = |at| body.get(number(at)?..)?.get(..number(at.checked_add(4)?)?);
    Some(Sections {
        types: part(8)?,
        strings: part(16)?,
    })
}

impl Sections<'_> {
    fn is_called(&self, at: u32, name: &str) -> bool {
        usize::try_from(at)
            .ok()
            .and_then(|at| self.strings.get(at..))
            .and_then(|rest| rest.strip_prefix(name.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    }

    /// The offset of the member in the struct, in bytes.
    fn offset(&self, structure: &str, member: &str) -> Found<u32> {
        let mut rest = self.types;
        loop {
            let (name, info) = (word(rest, 0)?, word(rest, 4)?);
            let (kind, count) = ((info >> 24) & 0x1f, usize::try_from(info & 0xffff).ok()?);
            let behind = words_behind(kind, count)?;
            let own = rest.get(12..)?.get(..behind)?;
            if kind == STRUCT && self.is_called(name, structure) {
                let mut members = own.chunks_exact(12);
                let found = members.find(|bytes| {
                    word(bytes, 0).is_some_and(|name| self.is_called(name, member))
                })?;
                // If the struct has bit fields, the upper byte is the member's width.
                let bits = word(found, 8)? & if info >> 31 == 1 { 0xff_ffff } else { u32::MAX };
                return (bits % 8 == 0).then_some(bits / 8);
            }
            rest = rest.get(behind.checked_add(12)?..)?;
        }
    }
}

/// The offset of the member in the struct, in bytes, from the description `btf`.
pub(crate) fn offset(btf: &[u8], structure: &str, member: &str) -> Found<u32> {
    sections(btf)?.offset(structure, member)
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a panic is how a test fails")]
mod tests {
    use super::*;

    const STRINGS: &[u8] = b"\0int\0task_struct\0state\0atomic_flags\0wide\0";

    fn name(text: &str) -> u32 {
        let wanted: Vec<u8> = [b"\0", text.as_bytes(), b"\0"].concat();
        let at = STRINGS
            .windows(wanted.len())
            .position(|part| part == wanted);
        u32::try_from(at.expect("it is there") + 1).expect("small")
    }

    /// An integer, a function without parameters, and a struct with two members.
    fn description(flag: u32, offset: u32) -> Vec<u8> {
        let types = [
            [name("int"), 1 << 24, 4, 0x20].as_slice(),
            &[0, 13 << 24, 0],
            &[name("task_struct"), (flag << 31) | (4 << 24) | 2, 16],
            &[name("state"), 1, 0],
            &[name("atomic_flags"), 1, offset],
        ]
        .concat();
        let length = u32::try_from(types.len() * 4).expect("small");
        let strings = u32::try_from(STRINGS.len()).expect("small");
        let mut btf = 0xeb9f_u16.to_ne_bytes().to_vec();
        btf.extend([1, 0]);
        for number in [24, 0, length, length, strings].iter().chain(&types) {
            btf.extend(number.to_ne_bytes());
        }
        btf.extend(STRINGS);
        btf
    }

    #[test]
    fn a_member_is_found() {
        let of = |btf: &[u8]| offset(btf, "task_struct", "atomic_flags");
        assert_eq!(of(&description(0, 64)), Some(8));
        assert_eq!(of(&description(1, 64)), Some(8));
        assert_eq!(of(&description(1, (1 << 24) | 65)), None);
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let whole = description(0, 64);
        assert_eq!(offset(&whole, "task_struct", "wide"), None);
        assert_eq!(offset(&whole, "task_struc", "state"), None);
        assert_eq!(offset(&whole, "wide", "state"), None);
        for length in 0..whole.len() {
            let part = whole.get(..length).unwrap_or_default();
            assert_eq!(offset(part, "task_struct", "atomic_flags"), None);
        }
    }

    #[test]
    fn this_kernel_says_where_a_task_has_its_flags() {
        // Some kernels on which the tests run have no BTF.
        if let Ok(btf) = std::fs::read("/sys/kernel/btf/vmlinux") {
            assert!(offset(&btf, "task_struct", "atomic_flags").is_some());
        }
    }
}
