//! Time zones by their names. They are those of the IANA database that is built in, never the system's: webhook and
//! controller must know the same, and an image has none.

use std::sync::LazyLock;

use jiff::tz::{TimeZone, TimeZoneDatabase};

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The time zone of this name.
pub(crate) fn find(name: &str) -> Option<TimeZone> {
    let zone = DATABASE.get(name).ok();
    // `Etc/Unknown` is a name, of no zone.
    zone.filter(|zone| !zone.is_unknown())
}
