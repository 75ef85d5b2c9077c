// SPDX-License-Identifier: MIT
//! The kernel's reports during a history. The harness judges the whole log after the run; here a report
//! is assigned to the seed that caused it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// Words of reports, as in qemu/judge.py: `test_kernel_words.py` compares them.
const WORDS: &[&str] = &[
    "BUG:",
    "kernel BUG at",
    "Oops",
    "general protection fault",
    "WARNING:",
    "KASAN:",
    "UBSAN:",
    "ODEBUG:",
    "refcount_t:",
    "possible circular locking",
    "possible recursive locking",
    "inconsistent lock state",
    "bad unlock balance",
    "held lock freed",
    "suspicious RCU usage",
    "invalid wait context",
    "lockdep is turned off",
    "scheduling while atomic",
    "sleeping function called",
    "blocked for more than",
    "soft lockup",
    "rcu: INFO:",
    "corruption",
    "Poison overwritten",
    "Bad page state",
    "ref_tracker:",
    "unregister_netdevice: waiting",
    "Out of memory",
    "panicked at",
    "Objects remaining",
    "Call Trace:",
];
/// A note of the kernel where it was refused memory for bookkeeping of its own, in the words of a report.
const NOTE: &str = "ref_tracker: memory allocation failure";
/// Lines shown from a report on.
const LINES: usize = 25;

pub struct KernelLog(Option<File>);

impl KernelLog {
    /// The messages from now on.
    pub fn new() -> Self {
        let open = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
        let mut file = open.ok();
        if let Some(file) = &mut file {
            let _ = file.seek(SeekFrom::End(0));
        }
        KernelLog(file)
    }

    fn lines(&mut self) -> Vec<String> {
        let Some(file) = &mut self.0 else { return Vec::new() };
        let mut lines = Vec::new();
        let mut room = [0; 8192];
        loop {
            match file.read(&mut room) {
                Ok(0) => return lines,
                Ok(len) => {
                    let record = String::from_utf8_lossy(&room[..len]).into_owned();
                    let (head, text) = record.split_once(';').unwrap_or(("", &record));
                    let priority = head.split(',').next().and_then(|word| word.parse::<u32>().ok());
                    // Messages of programs are not the kernel's.
                    if priority.is_none_or(|priority| priority < 8) {
                        lines.push(text.lines().next().unwrap_or_default().to_string());
                    }
                }
                // Older messages were overwritten.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(_) => return lines,
            }
        }
    }

    /// The reports since the last call.
    pub fn reports(&mut self) -> Vec<String> {
        let lines = self.lines();
        let is_report =
            |line: &String| WORDS.iter().any(|word| line.contains(word)) && !line.contains(NOTE);
        let Some(first) = lines.iter().position(is_report) else { return Vec::new() };
        lines[first..].iter().take(LINES).cloned().collect()
    }
}
