// SPDX-License-Identifier: MIT

//! Reads the text of a file of rules. This runs before the program's own code, so it must never
//! wait, and its memory is limited, whatever the name leads to.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// The maximum length of a file of rules.
const LONGEST: u64 = 1 << 20;

/// The bytes of a file, or of a device with an end, such as /dev/null.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new()
        .read(true)
        // A pipe would wait for its writer, and a terminal could become the controlling one.
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() && !kind.is_char_device() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut text = Vec::new();
    let length = file.take(LONGEST + 1).read_to_end(&mut text)?;
    if u64::try_from(length).is_ok_and(|length| length <= LONGEST) {
        Ok(text)
    } else {
        Err(io::Error::other("it is longer than 1 MiB"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a panic is how a test fails")]

    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn what_neither_waits_nor_has_no_end_is_read() {
        let place = std::env::temp_dir().join(format!("sdp-source-{}", std::process::id()));
        fs::create_dir_all(&place).expect("a directory can be made");
        let [file, pipe] = ["file", "pipe"].map(|name| place.join(name));
        let name = std::ffi::CString::new(pipe.as_os_str().as_bytes()).expect("no null byte");
        // SAFETY: A string of C.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let longest = vec![b'#'; 1 << 20];
        let of = |path: &Path| read(path).map_err(|error| error.to_string());

        fs::write(&file, &longest).expect("a file can be written");
        let just = of(&file) == Ok(longest.clone());
        fs::write(&file, [&longest[..], b"#"].concat()).expect("a file can be written");
        let more = of(&file);
        let (waiting, directory) = (of(&pipe), of(&place));
        fs::remove_dir_all(&place).expect("the directory can be removed");

        assert!(just);
        let too_long = Err(String::from("it is longer than 1 MiB"));
        let no_file = Err(String::from("it is not a file"));
        assert!(more == too_long && of("/dev/zero".as_ref()) == too_long);
        assert_eq!((waiting, directory), (no_file.clone(), no_file));
        assert_eq!(of("/dev/null".as_ref()), Ok(Vec::new()));
        let missing = read("/nonexistent".as_ref()).expect_err("it is not there");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
