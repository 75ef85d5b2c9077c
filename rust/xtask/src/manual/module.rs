// SPDX-License-Identifier: GPL-2.0

//! The knobs and counters in the source of the module.

use super::{Names, Values};
use anyhow::{ensure, Context, Result};
use std::collections::BTreeMap;

/// The knobs, from their table in C, the defaults of a namespace in Rust, and the header with
/// constants that are used as defaults.
pub(super) fn knobs(table: &str, defaults: &str, header: &str) -> Result<Names> {
    let numbers = variables(table);
    let mut found = Names::new();
    for line in table.lines().map(str::trim) {
        let Some(arguments) = line
            .strip_prefix("KNOB(")
            .and_then(|s| s.strip_suffix("),"))
        else {
            continue;
        };
        let words: Vec<_> = arguments.split(", ").collect();
        let [name, low, high] = words.as_slice() else {
            anyhow::bail!("KNOB of namespace.c with other arguments than three: {line}");
        };
        add(&mut found, name, Some(range(low, high, &numbers)?), None)?;
    }
    // Entries without a macro: `{ .procname = "NAME", ... },`.
    for entry in table.split(".procname = \"").skip(1) {
        let name = entry.split('"').next().unwrap_or_default();
        let entry = entry.split("\n\t},").next().unwrap_or_default();
        let field = |name: &str| {
            let start = format!(".{name} = ");
            let line = entry
                .lines()
                .find_map(|line| line.trim().strip_prefix(&start));
            line.map(|value| value.trim_end_matches(','))
        };
        let range = match (field("extra1"), field("extra2")) {
            (Some(low), Some(high)) => Some(range(low, high, &numbers)?),
            _ => None,
        };
        let data = field("data").and_then(|data| data.strip_prefix('&'));
        let default = data.and_then(|data| numbers.get(data));
        add(&mut found, name, range, default.map(i64::to_string))?;
    }
    ensure!(!found.is_empty(), "no knob in namespace.c");
    let body = between(defaults, "const DEFAULT_KNOBS", "\n};").context("DEFAULT_KNOBS")?;
    for line in body.lines().map(str::trim) {
        let line = if line.starts_with("//") { "" } else { line };
        let Some((name, value)) = line.strip_suffix(',').and_then(|s| s.split_once(": ")) else {
            continue;
        };
        let values = found
            .get_mut(name)
            .with_context(|| format!("{name} has a default, and is no knob"))?;
        values.default = Some(default(value, header)?);
    }
    Ok(found)
}

/// The counters: those in the tables, and those computed when they are read.
pub(super) fn counters(tables: &str, made: &str) -> Result<Names> {
    let mut found = Names::new();
    for kind in ["\ncounters! {\n", "\nreported! {\n"] {
        let body = between(tables, kind, "\n}").with_context(|| kind.trim().to_owned())?;
        for line in body.lines().map(str::trim) {
            if let Some(name) = line.strip_suffix(',').filter(|name| is_name(name)) {
                add(&mut found, name, None, None)?;
            }
        }
    }
    for call in made.split("show(\"").skip(1) {
        let name = call.split('"').next().unwrap_or_default();
        add(&mut found, name, None, None)?;
    }
    ensure!(!found.is_empty(), "no counter in stats.rs");
    Ok(found)
}

fn add(
    found: &mut Names,
    name: &str,
    range: Option<String>,
    default: Option<String>,
) -> Result<()> {
    let before = found.insert(name.to_owned(), Values { range, default });
    ensure!(before.is_none(), "the module has two of {name}");
    Ok(())
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, text) = text.split_once(start)?;
    Some(text.split_once(end)?.0)
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

/// The integers of the C file, by name.
fn variables(table: &str) -> BTreeMap<&str, i64> {
    let of_kernel = [
        ("SYSCTL_NEG_ONE", -1),
        ("SYSCTL_ZERO", 0),
        ("SYSCTL_ONE", 1),
        ("SYSCTL_TWO", 2),
        ("SYSCTL_ONE_HUNDRED", 100),
        ("SYSCTL_INT_MAX", i64::from(i32::MAX)),
    ];
    let own = table.lines().filter_map(|line| {
        let line = line.strip_prefix("static ").unwrap_or(line);
        let (name, value) = line.strip_prefix("int ")?.split_once(" = ")?;
        let factors = value.split(';').next()?.split(" * ");
        let value: Option<i64> = factors.map(|word| word.parse::<i64>().ok()).product();
        Some((name, value?))
    });
    own.chain(of_kernel).collect()
}

fn range(low: &str, high: &str, numbers: &BTreeMap<&str, i64>) -> Result<String> {
    let value = |word: &str| {
        let name = word.trim_start_matches('&');
        let value = numbers.get(name).copied();
        value.with_context(|| format!("{name} is no number that this check knows"))
    };
    let (low, high) = (value(low)?, value(high)?);
    Ok(if high == i64::from(i32::MAX) {
        format!("{low} or more")
    } else {
        format!("{low} to {high}")
    })
}

/// The default in the form of the manual page.
fn default(value: &str, header: &str) -> Result<String> {
    if value.starts_with("[0; ") {
        return Ok("empty".to_owned());
    }
    if let Some(constant) = value.strip_prefix("ffi::") {
        let name = constant.split(' ').next().unwrap_or_default();
        let found = header.lines().find_map(|line| {
            let mut words = line.strip_prefix("#define ")?.split_whitespace();
            (words.next() == Some(name)).then(|| words.next())?
        });
        let found = found.with_context(|| format!("sdp.h has no {name}"))?;
        return Ok(found.to_owned());
    }
    let digits = value.replace('_', "");
    let number: i64 = digits
        .parse()
        .with_context(|| format!("{value} is no default that this check knows"))?;
    Ok(number.to_string())
}

#[cfg(test)]
mod tests {
    use super::{counters, knobs, Values};

    const TABLE: &str = "\
static int depth_min = 4;\t\t/* three */
static int msec_max = 600 * 1000;
#define KNOB(field, low, high) {\\
\t.procname = #field,\\
}
static const struct ctl_table knob_table[] = {
\tKNOB(depth, &depth_min, &msec_max),
\tKNOB(orphans, SYSCTL_ZERO, SYSCTL_INT_MAX),
\tKNOB(who, SYSCTL_ZERO, SYSCTL_TWO),
\t{
\t\t.procname = \"list\",
\t\t.proc_handler = peers_handler,
\t},
};
int sdp_share = 50;
static const struct ctl_table machine_table[] = {
\t{
\t\t.procname = \"share\",
\t\t.data = &sdp_share,
\t\t.extra1 = SYSCTL_ONE,
\t\t.extra2 = SYSCTL_ONE_HUNDRED,
\t},
};
";
    const DEFAULTS: &str = "\
const DEFAULT_KNOBS: ffi::sdp_knobs = ffi::sdp_knobs {
    // Of a: word,
    depth: 60_000,
    orphans: 4096,
    who: ffi::SOME as c_int,
    list: [0; LEN],
};
";

    fn values(range: Option<&str>, default: &str) -> Values {
        Values {
            range: range.map(str::to_owned),
            default: Some(default.to_owned()),
        }
    }

    #[test]
    fn knobs_have_ranges_and_defaults() {
        let found = knobs(TABLE, DEFAULTS, "#define SOME\t1 /* one */\n").unwrap();
        assert_eq!(found.len(), 5);
        assert_eq!(found["depth"], values(Some("4 to 600000"), "60000"));
        assert_eq!(found["orphans"], values(Some("0 or more"), "4096"));
        assert_eq!(found["who"], values(Some("0 to 2"), "1"));
        assert_eq!(found["list"], values(None, "empty"));
        assert_eq!(found["share"], values(Some("1 to 100"), "50"));
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        let table = TABLE.replace("&depth_min", "&unknown");
        assert!(knobs(&table, DEFAULTS, "#define SOME 1\n").is_err());
        assert!(knobs(TABLE, DEFAULTS, "").is_err());
        let defaults = DEFAULTS.replace("orphans", "absent");
        assert!(knobs(TABLE, &defaults, "#define SOME 1\n").is_err());
    }

    #[test]
    fn counters_are_those_of_both_tables_and_those_made_for_a_reader() {
        let tables =
            "\ncounters! {\n    /// Words, words,\n    Stats {\n        opens,\n    }\n}\n\
                      \nreported! {\n    Traffic as x {\n        bytes_sent,\n    }\n}\n";
        let found = counters(tables, "show(\"pages\", 1);").unwrap();
        assert_eq!(
            found.keys().collect::<Vec<_>>(),
            ["bytes_sent", "opens", "pages"]
        );
        assert!(counters("", "").is_err());
    }
}
