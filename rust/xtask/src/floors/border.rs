// SPDX-License-Identifier: GPL-2.0

//! The border of `rust/rdma`: the names of ib_core stay inside.

use std::collections::BTreeSet;

/// The library's path inside the crate.
const LIBRARY: &str = "rdma";

/// The beginnings of names that the bindings have of ib_core and its connection managers, or
/// of the library's C functions.
const RAW: [&str; 6] = ["ib_", "IB_", "rdma_", "RDMA_", "sa_path_", "rust_"];

/// The C functions of another library, which has its own check.
const OTHER: &str = "rust_net_";

/// Faults of a file of the module: `named` are its paths from the crate's root.
pub(super) fn judge(from: &str, text: &str, named: &BTreeSet<String>) -> Vec<String> {
    if from == LIBRARY || from.starts_with("rdma::") {
        return Vec::new();
    }
    let imported = named.iter().filter_map(|path| path.strip_prefix("ffi::"));
    let mut raw: BTreeSet<&str> = imported.filter(|name| is_raw(name)).collect();
    raw.extend(text.lines().flat_map(raw_names));
    raw.iter()
        .map(|name| format!("{from} names {name} of the bindings, which is for {LIBRARY} alone"))
        .collect()
}

fn is_raw(name: &str) -> bool {
    RAW.iter().any(|begin| name.starts_with(begin)) && !name.starts_with(OTHER)
}

/// The names of `RAW` behind `ffi::` in a line of code.
fn raw_names(line: &str) -> Vec<&str> {
    let code = line.split("//").next().unwrap_or_default();
    let names = code.split("ffi::").skip(1);
    names
        .filter(|rest| is_raw(rest))
        .filter_map(|rest| {
            rest.split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(from: &str, text: &str) -> usize {
        let named = super::super::imports::of(
            from,
            &syn::parse_file(text).unwrap(),
            &["link", "rdma"].into(),
        );
        judge(from, text, &named).len()
    }

    #[test]
    fn raw_names_of_ib_core() {
        assert_eq!(told("link", "fn f(id: *mut ffi::ib_cm_id) {}"), 1);
        assert_eq!(
            told("link", "use crate::ffi::{ib_qp, rdma_cm_id, sock};"),
            2
        );
        assert_eq!(
            told(
                "link",
                "const A: u32 = crate::ffi::ib_wc_status_IB_WC_SUCCESS;"
            ),
            1
        );
        assert_eq!(
            told("link", "fn f(sk: *mut ffi::sock) {} // not ffi::ib_qp"),
            0
        );
        assert_eq!(told("rdma::qp", "fn f(qp: *mut ffi::ib_qp) {}"), 0);
        assert_eq!(told("link", "// A message of SDP."), 0);
    }
}
