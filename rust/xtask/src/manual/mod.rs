// SPDX-License-Identifier: GPL-2.0

//! Whether sdp(7) lists exactly the knobs and counters of the module.

mod module;
mod page;

use anyhow::{Context, Result};
use std::{collections::BTreeMap, fs, path::Path};

const PAGE: &str = "docs/man/sdp.7";

/// The names of knobs or counters, with the known properties of their values.
type Names = BTreeMap<String, Values>;

/// The values of a knob; empty for a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Values {
    /// `LOW to HIGH`, or `LOW or more`.
    range: Option<String>,
    /// `default VALUE`; the module has no text for a computed default.
    default: Option<String>,
}

/// The differences between the manual page and the module, one sentence each.
pub(crate) fn faults(root: &Path) -> Result<Vec<String>> {
    let read = |name: &str| {
        let path = root.join(name);
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let page = read(PAGE)?;
    let sysctl = read("rust/kmod/ffi/namespace.c")?;
    let defaults = read("rust/kmod/netns/mod.rs")?;
    let header = read("include/uapi/linux/sdp.h")?;
    let stats = read("rust/kmod/netns/stats.rs")?;
    let made = read("rust/kmod/proc.rs")? + &read("rust/rdma/cached.rs")?;
    let mut faults = compare(
        "knob",
        &page::entries(&page, "KNOBS")?,
        &module::knobs(&sysctl, &defaults, &header)?,
    );
    faults.extend(compare(
        "counter",
        &page::entries(&page, "COUNTERS")?,
        &module::counters(&stats, &made)?,
    ));
    Ok(faults)
}

fn compare(kind: &str, page: &Names, module: &Names) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, values) in module {
        let Some(told) = page.get(name) else {
            faults.push(format!("{PAGE} lacks the {kind} {name}"));
            continue;
        };
        let mut compare = |what: &str, told: Option<&str>, real: Option<&str>| {
            if real.is_some() && told != real {
                faults.push(format!(
                    "{PAGE} gives {name} the {what} \"{}\", the module \"{}\"",
                    told.unwrap_or("none"),
                    real.unwrap_or("none"),
                ));
            }
        };
        compare("range", told.range.as_deref(), values.range.as_deref());
        compare(
            "default",
            told.default.as_deref(),
            values.default.as_deref(),
        );
    }
    for name in page.keys().filter(|name| !module.contains_key(*name)) {
        faults.push(format!(
            "{PAGE} has the {kind} {name}, which the module lacks"
        ));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::{compare, faults, Names, Values};
    use std::path::Path;

    fn names(all: &[(&str, Option<&str>, Option<&str>)]) -> Names {
        let values = |range: Option<&str>, default: Option<&str>| Values {
            range: range.map(str::to_owned),
            default: default.map(str::to_owned),
        };
        all.iter()
            .map(|(name, range, default)| ((*name).to_owned(), values(*range, *default)))
            .collect()
    }

    #[test]
    fn the_manual_page_agrees_with_the_module() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        assert_eq!(faults(&root).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_name_too_few_and_a_name_too_many_are_faults() {
        let page = names(&[("here", None, None), ("surplus", None, None)]);
        let module = names(&[("here", None, None), ("missing", None, None)]);
        assert_eq!(
            compare("counter", &page, &module),
            [
                "docs/man/sdp.7 lacks the counter missing",
                "docs/man/sdp.7 has the counter surplus, which the module lacks",
            ]
        );
    }

    #[test]
    fn another_range_or_default_is_a_fault() {
        let page = names(&[("depth", Some("4 to 1024"), None)]);
        let module = names(&[("depth", Some("4 to 64"), Some("14"))]);
        assert_eq!(
            compare("knob", &page, &module),
            [
                "docs/man/sdp.7 gives depth the range \"4 to 1024\", the module \"4 to 64\"",
                "docs/man/sdp.7 gives depth the default \"none\", the module \"14\"",
            ]
        );
    }
}
