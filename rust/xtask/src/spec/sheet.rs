// SPDX-License-Identifier: GPL-2.0

//! The rules of the sheet: paragraphs that begin `**ID** (LEVEL; sources;
//! certainty)`.

use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;

/// How binding a rule is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    Must,
    Should,
    May,
}

/// One rule, without its text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    pub(crate) id: String,
    pub(crate) level: Level,
}

const CERTAINTIES: [&str; 4] = ["quoted", "agreed", "single", "own"];

/// All rules, in the order of the sheet.
pub(crate) fn parse(text: &str) -> Result<Vec<Rule>> {
    let mut rules = Vec::new();
    let mut last_of_topic = BTreeMap::new();
    for paragraph in text.split("\n\n") {
        let Some(rest) = paragraph.trim_start_matches('\n').strip_prefix("**") else {
            continue;
        };
        let Some((id, rest)) = rest.split_once("**") else {
            continue;
        };
        let Some((topic, number)) = split_id(id) else {
            continue;
        };
        let head = rest
            .trim_start()
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'));
        let (head, body) = head.with_context(|| format!("{id} has no (level; sources)"))?;
        if body.trim().is_empty() {
            bail!("{id} says nothing");
        }
        if last_of_topic.insert(topic.to_owned(), number) >= Some(number) {
            bail!("{id} is out of order, or there twice");
        }
        rules.push(Rule {
            id: id.to_owned(),
            level: level(id, head)?,
        });
    }
    Ok(rules)
}

/// `CREDIT-3` as topic and number.
fn split_id(id: &str) -> Option<(&str, u32)> {
    let (topic, number) = id.rsplit_once('-')?;
    let named = !topic.is_empty() && topic.chars().all(|c| c.is_ascii_uppercase());
    named.then_some((topic, number.parse().ok()?))
}

/// A rule with the source `own` has no separate certainty.
fn level(id: &str, head: &str) -> Result<Level> {
    let parts: Vec<&str> = head.split(';').map(str::trim).collect();
    let (level, sources, certainty) = match parts.as_slice() {
        [level, "own"] => (*level, "own", "own"),
        [level, sources, certainty] => (*level, *sources, *certainty),
        _ => bail!("{id}: ({head}) is not (level; sources; certainty)"),
    };
    if sources.is_empty() || !CERTAINTIES.contains(&certainty) {
        bail!("{id}: no source, or an unknown certainty in ({head})");
    }
    Ok(match level {
        "MUST" => Level::Must,
        "SHOULD" => Level::Should,
        "MAY" => Level::May,
        other => bail!("{id}: unknown level {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::{parse, Level};

    #[test]
    fn rules_are_found_between_prose() {
        let rules = parse(
            "# Title\n\nProse with **bold** words.\n\n\
             **CREDIT-1** (MUST; G2,\nOFED; agreed) One.\n\n\
             **CREDIT-3** (MAY; own) Three.\n\n    **EXAMPLE-1** is no rule.\n",
        )
        .unwrap();
        let all: Vec<_> = rules.iter().map(|r| (r.id.as_str(), r.level)).collect();
        assert_eq!(all, [("CREDIT-1", Level::Must), ("CREDIT-3", Level::May)],);
    }

    #[test]
    fn what_is_not_a_rule_is_an_error() {
        for bad in [
            "**A-1** The level is missing.",
            "**A-1** (MUST; agreed) The sources are missing.",
            "**A-1** (MUST; G2; perhaps) The certainty is unknown.",
            "**A-1** (WILL; G2; agreed) The level is unknown.",
            "**A-1** (MUST; own)",
            "**A-1** (MUST; own) Twice.\n\n**A-1** (MUST; own) Twice.",
            "**A-2** (MUST; own) Two.\n\n**A-1** (MUST; own) One.",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
