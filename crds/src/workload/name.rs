//! The names of Workloads: by them whoever knows a job finds its Workload, also the one that it will have.

/// The name of the Workload of a job: the job's name, so that people find it, and 64 bits of its UID, so that a job that
/// is deleted and made again gets another one.
///
/// ```
/// let uid = "0f8fad5b-d9cb-469f-a165-70867728950e";
/// assert_eq!(sluice_crds::workload_name("train", uid), "train-0f8fad5bd9cb469f");
/// ```
pub fn workload_name(job: &str, uid: &str) -> String {
    /// 253 that a name may have, less 16 digits and a dash.
    const PREFIX_MAX: usize = 236;
    let digits: String = uid
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(16)
        .collect();
    let prefix = job
        .get(..PREFIX_MAX)
        .unwrap_or(job)
        .trim_end_matches(['-', '.']);
    format!("{prefix}-{digits}")
}

/// The name of the Workload of a group of pods.
pub fn group_workload_name(group: &str) -> String {
    /// 253 that a name may have, less the suffix.
    const PREFIX_MAX: usize = 243;
    let prefix = group.get(..PREFIX_MAX).unwrap_or(group);
    format!("{}-pod-group", prefix.trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_by_uid_and_fit() {
        let uid = "0f8fad5b-d9cb-469f-a165-70867728950e";
        assert_eq!(workload_name("train", uid), "train-0f8fad5bd9cb469f");
        assert_eq!(workload_name(&"x".repeat(253), uid).len(), 253);
    }
}
