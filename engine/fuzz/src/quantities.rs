//! Quantities and amounts: what reads reads back the same, and nothing wraps.

use crate::quantity::Quantity;

/// Takes the bytes for a text that somebody wrote, and for a number that somebody shows.
pub fn check(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        written(text);
    }
    let mut number = [0; 16];
    for (to, from) in number.iter_mut().zip(bytes) {
        *to = *from;
    }
    shown(i128::from_le_bytes(number));
}

/// Whatever can be read is shown in a form that reads the same.
fn written(text: &str) {
    if let Ok(nanos) = Quantity(text.to_owned()).nanos() {
        shown(nanos);
    }
}

fn shown(nanos: i128) {
    for resource in ["cpu", "memory"] {
        let shown = Quantity::of(resource, nanos);
        match shown.nanos() {
            Ok(again) => assert_eq!(again, nanos, "{shown} of {resource}"),
            // The most negative number has no positive one to read it by.
            Err(error) => assert_eq!(nanos, i128::MIN, "{shown} of {resource}: {error}"),
        }
    }
}
