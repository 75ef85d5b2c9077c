// SPDX-License-Identifier: GPL-2.0

//! The prose of a file: comments and texts of source code, documents, manual pages.

use super::prose::{paragraphs, Line};
use std::path::Path;

/// The paragraphs of the file at `path`; none of a file of another kind.
pub(super) fn prose(path: &Path, text: &str) -> Vec<Vec<Line>> {
    let extension = path.extension().map(|e| e.to_string_lossy());
    let name = path.file_name().map(|n| n.to_string_lossy());
    match extension.as_deref() {
        Some("md") => paragraphs(numbered(text)),
        Some("rs" | "c" | "h") => code(text),
        Some("py") => hash_comments(text, true),
        Some("sh" | "toml" | "list" | "skips" | "config" | "conf" | "awk") => {
            hash_comments(text, false)
        }
        Some(section) if is_section(section) => manual(text),
        None if text.starts_with("#!") && text.lines().next().is_some_and(is_python) => {
            hash_comments(text, true)
        }
        None if text.starts_with("#!")
            || matches!(name.as_deref(), Some("Makefile" | "Kbuild")) =>
        {
            hash_comments(text, false)
        }
        _ => Vec::new(),
    }
}

fn is_section(extension: &str) -> bool {
    extension.len() == 1 && extension.starts_with(|c: char| c.is_ascii_digit())
}

fn is_python(line: &str) -> bool {
    line.contains("python")
}

fn numbered(text: &str) -> impl Iterator<Item = Line> + '_ {
    (1..).zip(text.lines().map(str::to_owned))
}

/// Comments that take a whole line, and texts in triple quotes.
fn hash_comments(text: &str, is_python: bool) -> Vec<Vec<Line>> {
    let mut quoted = false;
    paragraphs(numbered(text).map(|(number, line)| {
        let trimmed = line.trim();
        let quotes = trimmed.matches("\"\"\"").count();
        let kept = if is_python && (quoted || quotes > 0) {
            quoted ^= quotes % 2 == 1;
            // Code may stand in front of the quotes, or behind them.
            let inside = trimmed
                .split("\"\"\"")
                .nth(usize::from(quotes > 0 && quoted));
            if quotes > 1 {
                trimmed.split("\"\"\"").nth(1).unwrap_or_default()
            } else {
                inside.unwrap_or_default()
            }
        } else {
            let comment = trimmed
                .strip_prefix('#')
                .filter(|rest| !rest.starts_with('!'));
            comment.unwrap_or_default()
        };
        (number, kept.to_owned())
    }))
}

/// Text lines, and macros of a font as code.
fn manual(text: &str) -> Vec<Vec<Line>> {
    const FONTS: [&str; 10] = ["B", "I", "BI", "BR", "IB", "IR", "RB", "RI", "SB", "SM"];
    paragraphs(numbered(text).map(|(number, line)| {
        let kept = match line.strip_prefix(['.', '\'']) {
            Some(request) => {
                let mut words = request.split_whitespace();
                let is_font = words.next().is_some_and(|name| FONTS.contains(&name));
                let last = words.last().unwrap_or_default();
                match (is_font, last.ends_with('.')) {
                    (false, _) => String::new(),
                    (true, true) => "`code`.".to_owned(),
                    (true, false) => "`code`".to_owned(),
                }
            }
            None => line
                .replace("\\-", "-")
                .replace("\\fB", "")
                .replace("\\fI", "")
                .replace("\\fR", ""),
        };
        (number, kept)
    }))
}

/// The comments and the texts of Rust or C.
fn code(text: &str) -> Vec<Vec<Line>> {
    let mut comments = Vec::new();
    let mut texts = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while let Some(character) = rest.chars().next() {
        let len = if rest.starts_with("//") {
            let len = rest.find('\n').unwrap_or(rest.len());
            let (comment, _) = rest.split_at(len);
            comments.push((line, comment.trim_start_matches(['/', '!']).to_owned()));
            len
        } else if rest.starts_with("/*") {
            let len = rest.find("*/").map_or(rest.len(), |at| at + 2);
            let (comment, _) = rest.split_at(len);
            let comment = comment.trim_start_matches('/').trim_end_matches("*/");
            comments.extend((line..).zip(comment.lines().map(|text| {
                let text = text.trim().trim_start_matches('*');
                text.to_owned()
            })));
            comments.push((line, String::new()));
            len
        } else if character == '"' {
            let (content, len) = literal(rest);
            texts.push(vec![(line, content)]);
            len
        } else if let Some(len) = raw_literal(rest) {
            len
        } else if character == '\'' {
            character_literal(rest)
        } else {
            character.len_utf8()
        };
        let (passed, behind) = rest.split_at(len.min(rest.len()));
        let breaks = passed.matches('\n').count();
        let between = passed.chars().any(|c| !c.is_whitespace()) && !passed.starts_with('/');
        if between {
            // Code ends a paragraph of comments.
            comments.push((line, String::new()));
        }
        line += breaks;
        rest = behind;
    }
    let mut all = paragraphs(comments);
    all.extend(texts);
    all
}

/// The content of the string at the start of `text`, and its length with the quotes.
fn literal(text: &str) -> (String, usize) {
    let mut content = String::new();
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => {
                content.push(' ');
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (content, at + 1),
            _ => content.push(character),
        }
    }
    (content, text.len())
}

/// The length of the raw string at the start of `text`.
fn raw_literal(text: &str) -> Option<usize> {
    let hashes = text.strip_prefix('r')?;
    let open = hashes.trim_start_matches('#');
    let body = open.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes.len() - open.len()));
    let start = text.len() - body.len();
    Some(
        body.find(&end)
            .map_or(text.len(), |at| start + at + end.len()),
    )
}

/// The length of the character at the start of `text`, or 1 for a lifetime.
fn character_literal(text: &str) -> usize {
    let mut rest = text.char_indices().skip(1);
    match (rest.next(), rest.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let behind = at + escaped.len_utf8();
            let (_, tail) = text.split_at(behind);
            tail.find('\'').map_or(1, |end| behind + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let all = prose(Path::new(path), text);
        let all = all.iter().map(|lines| {
            let words: Vec<&str> = lines.iter().map(|(_, text)| text.trim()).collect();
            words.join(" ")
        });
        all.filter(|text| !text.is_empty()).collect()
    }

    #[test]
    fn comments_and_texts_of_code() {
        let text = "//! One\n//! two.\nfn f<'a>(c: char) {\n    // Three\n    g('\"', '\\'', \"fo\\\"ur\");\n    \
            /* Five\n     * six */\n    h(r#\"no \" text\"#); // seven\n}\n";
        assert_eq!(
            found("a.rs", text),
            ["One two.", "Three", "Five six", "seven", "fo ur"]
        );
    }

    #[test]
    fn lines_are_counted() {
        let all = prose(
            Path::new("a.c"),
            "/* One\n * two */\nx = \"a\\\nb\";\n// three\n",
        );
        let numbers: Vec<usize> = all.iter().flatten().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 2, 5, 3]);
    }

    #[test]
    fn comments_of_scripts() {
        assert_eq!(
            found("a.sh", "#!/bin/sh\n# One\n# two\nx # no\n"),
            ["One two"]
        );
        let text = "#!/usr/bin/python3\n\"\"\"One.\"\"\"\ndef f():\n    \"\"\"Two\n    three.\n    \"\"\"\n    # Four\n";
        assert_eq!(found("a.py", text), ["One.", "Two three.", "Four"]);
        assert_eq!(found("a", text), ["One.", "Two three.", "Four"]);
        assert!(found("a", "# data").is_empty());
    }

    #[test]
    fn manual_pages() {
        let text = ".TH X 7\n.SH NAME\nOne\n.B two\nthree \\-1\n.PP\n.\\\" no\nfour\n";
        assert_eq!(found("x.7", text), ["One `code` three -1", "four"]);
    }
}
