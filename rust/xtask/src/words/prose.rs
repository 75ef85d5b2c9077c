// SPDX-License-Identifier: GPL-2.0

//! The sentences of a text: its words, without code spans and quotations.

/// A line of prose with its number.
pub(super) type Line = (usize, String);

/// A part of a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word {
        text: String,
        line: usize,
        /// It begins a sentence.
        first: bool,
    },
    /// The end of a sentence: `.`, `!`, `?` or `:`.
    End(char),
    /// Other punctuation, a code span or a quotation.
    Break,
}

/// The paragraphs of Markdown, without fenced code: table cells, list items and headings are
/// paragraphs of their own.
pub(super) fn paragraphs(lines: impl IntoIterator<Item = Line>) -> Vec<Vec<Line>> {
    let mut all = vec![Vec::new()];
    let mut fenced = false;
    for (number, line) in lines {
        let text = line.trim();
        if text.starts_with("```") {
            fenced = !fenced;
            all.push(Vec::new());
        } else if fenced || text.starts_with("<!--") || text.is_empty() {
            all.push(Vec::new());
        } else if text.starts_with('|') {
            let cells = without_code(text);
            all.extend(cells.split('|').map(|cell| vec![(number, cell.to_owned())]));
            all.push(Vec::new());
        } else {
            if begins_a_paragraph(text) {
                all.push(Vec::new());
            }
            if let Some(last) = all.last_mut() {
                last.push((number, text.to_owned()));
            }
        }
    }
    all.retain(|lines| !lines.is_empty());
    all
}

fn begins_a_paragraph(text: &str) -> bool {
    let numbered = text
        .split_once(". ")
        .is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    numbered || ["- ", "* ", "#"].iter().any(|mark| text.starts_with(mark))
}

/// `text` with an empty span for each code span.
fn without_code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let kept = parts.map(|(n, part)| if n % 2 == 0 { part } else { "" });
    kept.collect::<Vec<_>>().join("`")
}

/// The tokens of a paragraph.
pub(super) fn tokens(paragraph: &[Line]) -> Vec<Token> {
    let characters = paragraph.iter().flat_map(|(number, line)| {
        let line = line.chars().chain(['\n']);
        line.map(move |character| (*number, character))
    });
    let characters: Vec<(usize, char)> = characters.collect();
    let mut tokens = Vec::new();
    let mut first = true;
    let mut at = 0;
    while let Some(&(line, character)) = characters.get(at) {
        let rest = characters.get(at + 1..).unwrap_or_default();
        let next = rest.first().map_or('\n', |(_, next)| *next);
        at += 1;
        if character.is_alphanumeric() {
            let tail = rest.iter().map_while(|(_, c)| is_of_word(*c).then_some(*c));
            let text: String = std::iter::once(character).chain(tail).collect();
            at += text.chars().count() - 1;
            tokens.push(Token::Word { text, line, first });
            first = false;
        } else if matches!(character, '`' | '"') {
            // A span that does not end is punctuation.
            let len = rest.iter().position(|(_, c)| *c == character);
            at += len.map_or(0, |len| len + 1);
            tokens.push(Token::Break);
            first = false;
        } else if matches!(character, '.' | '!' | '?' | ':') && next.is_whitespace() {
            tokens.push(Token::End(character));
            first = true;
        } else if !character.is_whitespace() && !matches!(character, '*' | '_' | '-') {
            tokens.push(Token::Break);
        }
    }
    tokens
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '\'' | '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<Line> {
        (1..).zip(text.lines().map(str::to_owned)).collect()
    }

    fn firsts(text: &str) -> Vec<String> {
        let tokens = tokens(&lines(text));
        let words = tokens.into_iter().filter_map(|token| match token {
            Token::Word {
                text, first: true, ..
            } => Some(text),
            _ => None,
        });
        words.collect()
    }

    #[test]
    fn paragraphs_end_at_blank_lines_items_and_cells() {
        let text = "# A\nB\nC\n\n- D\n  E\n1. F\n| `g|h` | I |\n```\ncode\n```\n<!-- no -->\nJ";
        let all = paragraphs(lines(text));
        let all: Vec<String> = all
            .iter()
            .map(|lines| {
                let words: Vec<&str> = lines.iter().map(|(_, text)| text.trim()).collect();
                words.join(" ")
            })
            .filter(|text| !text.is_empty())
            .collect();
        assert_eq!(all, ["# A B C", "- D E", "1. F", "``", "I", "J"]);
    }

    #[test]
    fn sentences_begin_behind_their_ends() {
        assert_eq!(
            firsts("One e.g. two.\nThree? Four, five: six"),
            ["One", "two", "Three", "Four", "six"]
        );
        assert_eq!(firsts("`code` begins. Then"), ["Then"]);
    }

    #[test]
    fn code_and_quotations_are_breaks() {
        let word = |text: &str, first| Token::Word {
            text: text.to_owned(),
            line: 1,
            first,
        };
        assert_eq!(
            tokens(&lines("one `two` \"three\" **four**")),
            [
                word("one", true),
                Token::Break,
                Token::Break,
                word("four", false)
            ]
        );
    }
}
