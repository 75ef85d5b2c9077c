// SPDX-License-Identifier: GPL-2.0

//! Compares the sheet, the exceptions and the citations.

use super::{
    citation::{Citation, Kind},
    exception::{Exception, Lacks},
    sheet::{Level, Rule},
};
use std::fmt::Write as _;

/// The result.
pub(crate) struct Audit {
    rows: Vec<Row>,
    faults: Vec<String>,
}

/// A rule and its citations.
struct Row {
    rule: Rule,
    code: Vec<String>,
    tests: Vec<String>,
    excused: Option<Lacks>,
}

impl Row {
    fn new(rule: &Rule, citations: &[Citation], exceptions: &[Exception]) -> Self {
        let places = |kind| {
            citations
                .iter()
                .filter(|c| c.rule == rule.id && c.kind == kind)
                .map(|c| c.place.to_string())
                .collect()
        };
        let excused = exceptions.iter().find(|e| e.rules.contains(&rule.id));
        Self {
            rule: rule.clone(),
            code: places(Kind::Code),
            tests: places(Kind::Test),
            excused: excused.map(|e| e.lacks),
        }
    }

    fn fault(&self) -> Option<String> {
        let id = &self.rule.id;
        let missing = match (self.code.is_empty(), self.tests.is_empty()) {
            (false, false) => None,
            (true, false) => Some(Lacks::Code),
            (false, true) => Some(Lacks::Test),
            (true, true) => Some(Lacks::Both),
        };
        match (missing, self.excused) {
            (Some(missing), None) if self.rule.level == Level::Must => {
                Some(format!("{id} is a MUST without {}", words(missing)))
            }
            (missing, Some(excused)) if missing != Some(excused) => {
                let now = missing.map_or("nothing", words);
                Some(format!(
                    "{id} is excused for lack of {}, but lacks {now}",
                    words(excused)
                ))
            }
            _ => None,
        }
    }
}

fn words(lacks: Lacks) -> &'static str {
    match lacks {
        Lacks::Code => "code",
        Lacks::Test => "a test",
        Lacks::Both => "code and a test",
    }
}

impl Audit {
    pub(crate) fn new(sheet: &[Rule], exceptions: &[Exception], citations: &[Citation]) -> Self {
        let rows: Vec<Row> = sheet
            .iter()
            .map(|rule| Row::new(rule, citations, exceptions))
            .collect();
        let is_known = |id: &str| sheet.iter().any(|rule| rule.id == id);
        let mut faults = Vec::new();
        for citation in citations {
            if let Some(fault) = citation.fault {
                faults.push(format!("{}: {}: {fault}", citation.place, citation.rule));
            }
            if !is_known(&citation.rule) {
                faults.push(format!("{}: there is no {}", citation.place, citation.rule));
            }
        }
        let excused: Vec<&String> = exceptions.iter().flat_map(|e| &e.rules).collect();
        for (index, id) in excused.iter().enumerate() {
            if !is_known(id) {
                faults.push(format!("an exception is for {id}, which is no rule"));
            }
            if excused.iter().take(index).any(|other| other == id) {
                faults.push(format!("{id} is excused twice"));
            }
        }
        faults.extend(rows.iter().filter_map(Row::fault));
        Self { rows, faults }
    }

    pub(crate) fn faults(&self) -> &[String] {
        &self.faults
    }

    /// Each rule with the places that cite it.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            let list = |places: &[String]| match places {
                [] => "-".to_owned(),
                places => places.join(" "),
            };
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{:<14} {:<6} code: {}\n{:21} tests: {}",
                row.rule.id,
                match row.rule.level {
                    Level::Must => "MUST",
                    Level::Should => "SHOULD",
                    Level::May => "MAY",
                },
                list(&row.code),
                "",
                list(&row.tests),
            );
        }
        text
    }

    pub(crate) fn summary(&self) -> String {
        let musts = self.rows.iter().filter(|r| r.rule.level == Level::Must);
        let (mut all, mut covered, mut excused) = (0usize, 0usize, 0usize);
        for row in musts {
            all = all.saturating_add(1);
            if row.excused.is_some() {
                excused = excused.saturating_add(1);
            } else if row.fault().is_none() {
                covered = covered.saturating_add(1);
            }
        }
        format!(
            "{} rules; of {all} MUSTs {covered} are implemented and tested, {excused} excused; {} faults",
            self.rows.len(),
            self.faults.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Audit;
    use crate::spec::{citation, exception, sheet};
    use std::path::Path;

    const BOTH: &str = "//= spec: A-1\nx();\n//= test: A-1\nfn f() {}";

    fn faults(exceptions: &str, code: &str) -> Vec<String> {
        let rules = sheet::parse("**A-1** (MUST; own) One.\n\n**A-2** (MAY; own) Two.").unwrap();
        let exceptions = exception::parse(exceptions).unwrap();
        let mut citations = Vec::new();
        citation::in_file(Path::new("rust/engine/src/a.rs"), code, &mut citations);
        Audit::new(&rules, &exceptions, &citations)
            .faults()
            .to_vec()
    }

    fn excuse(id: &str, lacks: &str) -> String {
        format!("[[exception]]\nrules = [\"{id}\"]\nlacks = \"{lacks}\"\nreason = \"one two three four\"")
    }

    #[test]
    fn a_must_takes_code_and_a_test() {
        assert_eq!(faults("", BOTH), [""; 0]);
        assert_eq!(faults("", ""), ["A-1 is a MUST without code and a test"]);
        assert_eq!(
            faults("", "//= spec: A-1\nx();"),
            ["A-1 is a MUST without a test"]
        );
        assert_eq!(
            faults("", "//= test: A-1\nfn f() {}"),
            ["A-1 is a MUST without code"]
        );
    }

    #[test]
    fn an_exception_covers_what_it_says_and_nothing_else() {
        assert_eq!(faults(&excuse("A-1", "both"), ""), [""; 0]);
        for (lacks, code) in [
            ("both", BOTH),
            ("both", "//= spec: A-1\nx();"),
            ("test", BOTH),
            ("code", "//= spec: A-1\nx();"),
        ] {
            assert_eq!(faults(&excuse("A-1", lacks), code).len(), 1, "{lacks}");
        }
        let twice = format!("{0}\n{0}", excuse("A-1", "both"));
        assert_eq!(faults(&twice, ""), ["A-1 is excused twice"]);
    }

    #[test]
    fn ids_that_the_sheet_does_not_have_are_stale() {
        let stale = format!("{BOTH}\n//= test: A-3\nfn g() {{}}");
        assert_eq!(
            faults("", &stale),
            ["rust/engine/src/a.rs:5: there is no A-3"]
        );
        assert_eq!(
            faults(&excuse("A-4", "both"), BOTH),
            ["an exception is for A-4, which is no rule"]
        );
    }
}
