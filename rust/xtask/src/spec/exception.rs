// SPDX-License-Identifier: GPL-2.0

//! Rules that need no citation, and the reasons.

use anyhow::{bail, Result};
use serde::Deserialize;

/// The missing citation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Lacks {
    Code,
    Test,
    Both,
}

/// Rules that lack a citation for the same reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exception {
    pub(crate) rules: Vec<String>,
    pub(crate) lacks: Lacks,
    pub(crate) reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    exception: Vec<Exception>,
}

pub(crate) fn parse(text: &str) -> Result<Vec<Exception>> {
    let file: File = toml::from_str(text)?;
    for exception in &file.exception {
        if exception.reason.split_whitespace().count() < 4 {
            bail!("{:?}: a reason takes more words", exception.rules);
        }
    }
    Ok(file.exception)
}

#[cfg(test)]
mod tests {
    use super::{parse, Lacks};

    #[test]
    fn an_exception_has_rules_a_lack_and_a_reason() {
        let all = parse(
            "[[exception]]\nrules = [\"A-1\"]\nlacks = \"test\"\nreason = \"only hardware shows it\"",
        )
        .unwrap();
        assert_eq!(all[0].rules, ["A-1"]);
        assert_eq!(all[0].lacks, Lacks::Test);
        assert!(parse("[[exception]]\nrules = []\nlacks = \"test\"").is_err());
        assert!(parse("[[exception]]\nrules = []\nlacks = \"test\"\nreason = \"later\"").is_err());
    }
}
