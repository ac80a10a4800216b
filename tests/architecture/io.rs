//! The controller has no I/O and no clock: only its shell has.

use crate::sources::{identifiers, of_crate};

/// What only the shell may name.
const SHELL_ONLY: [&str; 8] = [
    "tokio",
    "Client",
    "Clients",
    "async",
    "await",
    "spawn",
    "Instant",
    "SystemTime",
];
/// Calls that read a clock.
const CLOCKS: [&str; 4] = ["Moment::now", "Now::read", "clock::now", "clock::wall"];

#[test]
fn only_the_shell_of_the_controller_has_io_and_a_clock() {
    let sources = of_crate("");
    let controller = sources.iter().filter(|source| {
        let module: Vec<&str> = source.module.iter().map(String::as_str).collect();
        module.starts_with(&["controller"]) && !module.starts_with(&["controller", "shell"])
    });
    let mut read = 0;
    for source in controller {
        read += 1;
        let named = identifiers(&source.code).find(|name| SHELL_ONLY.contains(name));
        assert_eq!(named, None, "{} belongs to the shell", source.path);
        let clock = CLOCKS.iter().find(|call| source.code.contains(*call));
        assert_eq!(clock, None, "{}: the time is an argument", source.path);
    }
    assert!(read > 20, "the sources were not read");
}
