// SPDX-License-Identifier: GPL-2.0

//! The files of a folder.

use anyhow::{Context, Result};
use std::{fs, path::Path};
use walkdir::WalkDir;

/// A file with its text.
pub(crate) struct Source {
    /// From the root of the repository.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The files below `folder` with one of these endings, by name.
pub(crate) fn below(root: &Path, folder: &str, endings: &[&str]) -> Result<Vec<Source>> {
    let mut found = Vec::new();
    for entry in WalkDir::new(root.join(folder)).sort_by_file_name() {
        let entry = entry?;
        let path = entry.path();
        let ending = path.extension().unwrap_or_default();
        if entry.file_type().is_file() && endings.iter().any(|known| ending == *known) {
            found.push(Source {
                path: path.strip_prefix(root)?.display().to_string(),
                text: fs::read_to_string(path).with_context(|| path.display().to_string())?,
            });
        }
    }
    Ok(found)
}
