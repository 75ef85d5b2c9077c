// SPDX-License-Identifier: GPL-2.0

//! Whether documents, comments and messages have wording that `words.toml` refuses.

mod prose;
mod source;

use anyhow::{Context, Result};
use prose::Token;
use serde::Deserialize;
use std::{fs, path::Path};
use walkdir::{DirEntry, WalkDir};

const LIST: &str = "rust/xtask/words.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// Directories and files that still have refused wording.
    pending: Vec<String>,
    word: Vec<Refusal>,
}

/// A sequence of words, and its replacement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    refused: String,
    instead: String,
}

impl Refusal {
    /// The line of each place in `tokens` with this wording.
    fn lines(&self, tokens: &[Token]) -> Vec<usize> {
        let starts = self.refused.starts_with('^');
        let refused = self.refused.trim_start_matches('^');
        let refused: Vec<Vec<&str>> = refused
            .split_whitespace()
            .map(|alternatives| alternatives.split('|').collect())
            .collect();
        let places = tokens.windows(refused.len()).enumerate();
        let places = places.filter_map(|(at, window)| {
            let fits = window
                .iter()
                .zip(&refused)
                .all(|(token, words)| match token {
                    Token::Word { text, .. } if starts => words.contains(&text.as_str()),
                    Token::Word { text, .. } => words.contains(&text.to_lowercase().as_str()),
                    _ => false,
                });
            let Some(Token::Word { line, first, .. }) = window.first() else {
                return None;
            };
            let behind = tokens.get(at..).unwrap_or_default();
            let counts = !starts || (*first && !is_question(behind));
            (fits && counts).then_some(*line)
        });
        places.collect()
    }
}

/// Whether the sentence at the start of `tokens` is a question.
fn is_question(tokens: &[Token]) -> bool {
    tokens.iter().find(|token| matches!(token, Token::End(_))) == Some(&Token::End('?'))
}

fn judge(list: &[Refusal], file: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for paragraph in source::prose(Path::new(file), text) {
        let tokens = prose::tokens(&paragraph);
        for refusal in list {
            faults.extend(refusal.lines(&tokens).into_iter().map(|line| {
                let Refusal { refused, instead } = refusal;
                format!("{file}:{line}: \"{refused}\": {instead}")
            }));
        }
    }
    faults
}

fn is_source(entry: &DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy();
    entry.depth() == 0 || !(name.starts_with('.') || matches!(&*name, "target" | "LICENSES"))
}

/// Refused wording outside of the pending parts, and pending parts that have none. With `all`,
/// refused wording everywhere.
pub(crate) fn faults(root: &Path, all: bool) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join(LIST)).context(LIST)?;
    let list: List = toml::from_str(&text).context(LIST)?;
    let mut faults = Vec::new();
    let mut stays = vec![false; list.pending.len()];
    let entries = WalkDir::new(root).sort_by_file_name();
    for entry in entries.into_iter().filter_entry(is_source) {
        let entry = entry?;
        let path = entry.path().strip_prefix(root)?;
        if !entry.file_type().is_file() || path == Path::new(LIST) {
            continue;
        }
        // A file that is no text has no words.
        let Ok(text) = fs::read_to_string(entry.path()) else {
            continue;
        };
        let found = judge(&list.word, &path.to_string_lossy(), &text);
        match list.pending.iter().position(|part| path.starts_with(part)) {
            Some(part) if !all => {
                if let Some(stays) = stays.get_mut(part) {
                    *stays |= !found.is_empty();
                }
            }
            _ => faults.extend(found),
        }
    }
    if !all {
        let done = list
            .pending
            .iter()
            .zip(&stays)
            .filter(|(_, stays)| !**stays);
        faults.extend(done.map(|(part, _)| format!("{LIST}: {part} passes; it is not pending")));
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(refused: &str, text: &str) -> Vec<String> {
        let refusal = Refusal {
            refused: refused.to_owned(),
            instead: "better".to_owned(),
        };
        judge(&[refusal], "a.md", text)
    }

    #[test]
    fn a_word_is_refused_wherever_it_stands() {
        let faults = [
            "a.md:1: \"blue|red\": better",
            "a.md:2: \"blue|red\": better",
        ];
        assert_eq!(told("blue|red", "A sky, blue\nclouds. Red"), faults);
        assert!(told("red", "reddish `red` \"red\"").is_empty());
    }

    #[test]
    fn a_sequence_is_refused_across_lines_and_not_across_punctuation() {
        assert_eq!(told("one|two of", "as one\nof others").len(), 1);
        assert!(told("one|two of", "after one, of others").is_empty());
    }

    #[test]
    fn a_sentence_is_refused_by_its_first_word_unless_it_is_a_question() {
        assert_eq!(told("^Where", "One. Where two is.").len(), 1);
        assert!(told("^Where", "Where is it?").is_empty());
        assert!(told("^Where", "See Where.").is_empty());
        assert!(told("^Where", "| where |").is_empty());
    }

    #[test]
    fn the_repository_has_no_refused_words() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        assert_eq!(faults(root, false).unwrap(), Vec::<String>::new());
    }
}
