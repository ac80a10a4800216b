//! Where the file is.

use std::io::Read;
use std::path::Path;

use sluice_configuration::{ConfigError, Configuration, parse};

/// Reads the file; without a path everything has its default.
///
/// # Errors
/// All that is wrong with it.
pub fn load(path: Option<&Path>) -> Result<Configuration, ConfigError> {
    let Some(path) = path else {
        return Ok(Configuration::default());
    };
    parse(&std::fs::read_to_string(path)?)
}

/// The text of a file that a user names; `-` is the standard input.
pub(super) fn text(path: &Path) -> Result<String, ConfigError> {
    if path.as_os_str() != "-" {
        return Ok(std::fs::read_to_string(path)?);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}
