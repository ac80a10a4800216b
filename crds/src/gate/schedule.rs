//! When a gate is lifted by itself: a time that the held object names, windows, and exceptions. Types and their
//! schema only; what they say of a time is in `sluice-gates`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// The annotation that names the time of [`NotBefore`], if the Gate names no other.
pub const NOT_BEFORE_ANNOTATION: &str = "sluice.dev/not-before";
/// The time zone of a [`Window`] that names none.
pub const DEFAULT_TIME_ZONE: &str = "Etc/UTC";
/// Longest [`Window`]: 31 days.
pub const WINDOW_SECONDS_MAX: i32 = 31 * 24 * 60 * 60;

/// When the gate is lifted by itself.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.notBefore) || has(self.windows) && size(self.windows) > 0").message("must have notBefore, windows, or both: without them the gate is never lifted by itself"))]
pub struct Schedule {
    /// The held object names a time in an annotation. The gate is lifted at that time or later. An object
    /// without the annotation stays held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<NotBefore>,
    /// The gate is lifted while a window is open. Windows may overlap. With notBefore, both must allow it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub windows: Vec<Window>,
    /// Times in which the gate is not lifted, whatever windows and notBefore say: holidays, maintenance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub exceptions: Vec<Exception>,
}

/// A time that the held object names.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NotBefore {
    /// The key of the annotation. Its value is a time in the form of RFC 3339, such as 2026-12-01T08:00:00Z
    /// or 2026-12-01T09:00:00+01:00.
    #[serde(default = "not_before_annotation")]
    #[schemars(length(min = 1, max = 317))]
    pub annotation: String,
}

impl Default for NotBefore {
    fn default() -> Self {
        let annotation = not_before_annotation();
        Self { annotation }
    }
}

/// A time that comes again and again.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// When the window opens, as the schedule of a CronJob: minute, hour, day of month, month, day of week,
    /// or @hourly, @daily, @weekly, @monthly, @yearly. `0 18 * * MON-FRI` is 18:00 on working days. A time
    /// that the clock skips in spring opens no window. A time that comes twice in autumn opens one window,
    /// unless the schedule names every hour.
    #[schemars(length(min = 1, max = 256))]
    pub start: String,
    /// How long the window stays open, in elapsed seconds: at most 31 days.
    #[schemars(range(min = 1, max = WINDOW_SECONDS_MAX))]
    pub duration_seconds: i32,
    /// The time zone of the start, by its name in the IANA database, such as Europe/Berlin.
    #[serde(default = "default_time_zone")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: String,
}

/// A time in which the gate is not lifted.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.from < self.to").message("must be after from").field_path(".to"))]
#[x_kube(validation = Rule::new("self.to < timestamp('9999-12-30T00:00:00Z')").message("must be before 9999-12-30T00:00:00Z, the end of the calendar").field_path(".to"))]
pub struct Exception {
    /// When it begins, in the form of RFC 3339.
    pub from: Time,
    /// When it ends, in the form of RFC 3339. At this time the gate may be lifted again.
    pub to: Time,
    /// Why. Users read it on the objects that are held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub reason: Option<String>,
}

fn not_before_annotation() -> String {
    NOT_BEFORE_ANNOTATION.to_owned()
}

fn default_time_zone() -> String {
    DEFAULT_TIME_ZONE.to_owned()
}
