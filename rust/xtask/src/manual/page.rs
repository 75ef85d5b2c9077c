// SPDX-License-Identifier: GPL-2.0

//! The entries of a section of the manual page.
//!
//! An entry is a `.TP`, then `.B NAME` or `.BR NAME " (UNIT; RANGE; default VALUE)"`.

use super::{Names, Values};
use anyhow::{bail, ensure, Context, Result};

/// The entries of the section called `title`.
pub(super) fn entries(page: &str, title: &str) -> Result<Names> {
    let mut found = Names::new();
    let mut lines = page
        .lines()
        .skip_while(|line| line.strip_prefix(".SH ") != Some(title))
        .skip(1)
        .take_while(|line| !line.starts_with(".SH "));
    while let Some(line) = lines.next() {
        if line != ".TP" {
            continue;
        }
        let head = lines.next().unwrap_or_default();
        let (name, values) = entry(head).with_context(|| format!("{title}: {head:?}"))?;
        ensure!(
            found.insert(name.to_owned(), values).is_none(),
            "{title} has two entries of {name}"
        );
    }
    ensure!(!found.is_empty(), "no entry in section {title}");
    Ok(found)
}

fn entry(head: &str) -> Result<(&str, Values)> {
    if let Some(name) = head.strip_prefix(".B ") {
        return Ok((name, Values::default()));
    }
    let Some((name, note)) = head.strip_prefix(".BR ").and_then(|s| s.split_once(' ')) else {
        bail!("expected .B NAME or .BR NAME \" (NOTE)\" behind .TP");
    };
    let note = note
        .strip_prefix("\" (")
        .and_then(|note| note.strip_suffix(")\""))
        .context("expected a note in parentheses and quotation marks")?;
    let mut values = Values::default();
    // roff's minus sign.
    for part in note.replace("\\-", "-").split("; ") {
        if let Some(default) = part.strip_prefix("default ") {
            values.default = Some(default.to_owned());
        } else if part.contains(" to ") || part.ends_with(" or more") {
            values.range = Some(part.to_owned());
        }
    }
    Ok((name, values))
}

#[cfg(test)]
mod tests {
    use super::{entries, Values};

    const PAGE: &str = "\
.SH OPTIONS
.TP
.BR SDP_TRAFFIC \" (87, read only)\"
.SH KNOBS
Words.
.TP
.BR mem \" (pages, three numbers; default some)\"
Words.
.TP
.BR depth \" (buffers; 4 to 64; default 14)\"
.TP
.B other
.SH FILES
.TP
.I /proc
";

    #[test]
    fn entries_of_one_section_are_found() {
        let found = entries(PAGE, "KNOBS").unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["depth", "mem", "other"]);
        assert_eq!(
            found["depth"],
            Values {
                range: Some("4 to 64".to_owned()),
                default: Some("14".to_owned()),
            }
        );
        assert_eq!(found["mem"].range, None);
        assert_eq!(found["other"], Values::default());
    }

    #[test]
    fn a_section_that_is_not_there_or_not_of_this_form_is_an_error() {
        assert!(entries(PAGE, "COUNTERS").is_err());
        assert!(entries(PAGE, "FILES").is_err());
        assert!(entries(".SH A\n.TP\n.B x\n.TP\n.B x\n", "A").is_err());
    }
}
