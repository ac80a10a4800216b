//! The file: reads it as a whole, with every problem in it.

use serde_json::Value;
use serde_saphyr::Error;
use sluice_kinds::Problem;

use crate::kind::Configuration;

/// Larger than any configuration that is meant: a ConfigMap holds 1 MiB.
const BYTES_MAX: usize = 1 << 20;

/// Why a configuration can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("the file can't be read: {0}")]
    Unreadable(#[from] std::io::Error),
    /// Its text is not one YAML document.
    #[error("the file is not one YAML document: {0}")]
    Syntax(String),
    /// Fields of it are wrong.
    #[error("{}", list(.0).join("\n"))]
    Invalid(Vec<Problem>),
}

impl ConfigError {
    /// One line for each problem.
    pub fn lines(&self) -> Vec<String> {
        match self {
            Self::Invalid(problems) => list(problems),
            other => vec![one_line(&other.to_string())],
        }
    }
}

fn list(problems: &[Problem]) -> Vec<String> {
    let lines = problems.iter().map(ToString::to_string);
    lines.map(|line| one_line(&line)).collect()
}

/// A value may have several lines.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Why a text is not one YAML document, and in which line. The parser would quote the lines around it.
fn not_one_document(error: &Error) -> ConfigError {
    let error = error.without_snippet();
    let told = match error {
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or_default();
            format!("Duplicate value: {key:?}: a field may be set only once")
        }
        Error::MultipleDocuments { .. } => {
            "Forbidden: a second document; a configuration is one".to_owned()
        }
        // It ends with where that is.
        other => {
            let text = other.to_string();
            return ConfigError::Syntax(text.lines().next().unwrap_or_default().to_owned());
        }
    };
    ConfigError::Syntax(match error.location() {
        Some(at) => format!("line {}, column {}: {told}", at.line(), at.column()),
        None => told,
    })
}

/// Reads the text of a file.
///
/// # Errors
/// All that is wrong with it.
pub fn parse(text: &str) -> Result<Configuration, ConfigError> {
    if BYTES_MAX < text.len() {
        return Err(ConfigError::Syntax(format!(
            "it has {} bytes; may not be more than {BYTES_MAX} bytes",
            text.len()
        )));
    }
    let document: Value = if text.trim().is_empty() {
        Value::Null
    } else {
        serde_saphyr::from_str(text).map_err(|error| not_one_document(&error))?
    };
    let document = match document {
        // Nothing but comments: told as a file without apiVersion.
        Value::Null => Value::Object(serde_json::Map::new()),
        other => other,
    };
    Configuration::read(document).map_err(ConfigError::Invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "apiVersion: config.sluice.dev/v1alpha1\nkind: Configuration\n";

    /// The problems of a file with these fields.
    fn refused(fields: &str) -> Vec<String> {
        match parse(&format!("{HEADER}{fields}")) {
            Ok(_) => Vec::new(),
            Err(error) => error.lines(),
        }
    }

    /// Files that are refused: what is wrong, the fields, and what is told.
    const REFUSED: [(&str, &str, &[&str]); 29] = [
        (
            "a label without a value, by which every namespace would be managed",
            "managedNamespaces: {selector: {matchLabels: {team: }}}",
            &[
                "managedNamespaces.selector.matchLabels.team: Invalid value: \"null\": must be a text",
            ],
        ),
        (
            "unknown field",
            "queueLabels: [x]",
            &["queueLabels: Forbidden: unknown field; supported fields: "],
        ),
        (
            "unknown field of a section",
            "fairSharing: {enable: true}",
            &[
                "fairSharing.enable: Forbidden: unknown field; supported fields: \"preemptionStrategies\"",
            ],
        ),
        (
            "unknown field of an element",
            "deviceClasses: [{name: a.io/b, deviceClassNames: [c], classes: [x]}]",
            &[
                "deviceClasses[0].classes: Forbidden: unknown field; supported fields: \"deviceClassNames\", \"name\"",
            ],
        ),
        (
            "a required field beside an unknown one whose name begins like it",
            "deviceClasses: [{names: a.io/b, deviceClassNames: [c]}]",
            &[
                "deviceClasses[0].names: Forbidden: unknown field; supported fields: \"deviceClassNames\", \"name\"",
                "deviceClasses[0].name: Required value: ",
            ],
        ),
        (
            "a text for a list",
            "queueLabelAliases: kueue.x-k8s.io/queue-name",
            &["queueLabelAliases: Invalid value: \"kueue.x-k8s.io/queue-name\": must be a list"],
        ),
        (
            "a number for a text",
            "admissionFairSharing: {usageHalfLifeTime: 168}",
            &["admissionFairSharing.usageHalfLifeTime: Invalid value: \"168\": must be a text"],
        ),
        (
            "a list for a section",
            "admissionFairSharing: [1]",
            &["admissionFairSharing: Invalid value: \"[1]\": must be a map of fields"],
        ),
        (
            "no duration",
            "admissionFairSharing: {usageHalfLifeTime: a week}",
            &[
                "admissionFairSharing.usageHalfLifeTime: Invalid value: \"a week\": must be a duration with the units",
            ],
        ),
        (
            "a duration that is too short",
            "admissionFairSharing: {usageHalfLifeTime: 10ms}",
            &[
                "admissionFairSharing.usageHalfLifeTime: Invalid value: \"10ms\": must be a duration with the units d, h, m, s or ms (such as \"90s\", \"1h30m\" or \"7d\"), and at least 1s",
            ],
        ),
        (
            "none of the names",
            "undeclaredResources: Allow",
            &[
                "undeclaredResources: Unsupported value: \"Allow\": supported values: \"Block\", \"Ignore\"",
            ],
        ),
        (
            "none of the names of what becomes of an object without a queue",
            "managedNamespaces: {unlabelled: hold}",
            &[
                "managedNamespaces.unlabelled: Unsupported value: \"hold\": supported values: \"Default\", \"Hold\", \"Ignore\", \"Refuse\"",
            ],
        ),
        (
            "no operator of a selector",
            "managedNamespaces: {selector: {matchExpressions: [{key: team, operator: Is}]}}",
            &[
                "managedNamespaces.selector.matchExpressions[0].operator: Unsupported value: \"Is\": supported values: \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\"",
            ],
        ),
        (
            "a unit of durations that is none",
            "admissionFairSharing: {usageHalfLifeTime: 1w}",
            &[
                "admissionFairSharing.usageHalfLifeTime: Invalid value: \"1w\": must be a duration with the units d, h, m, s or ms",
            ],
        ),
        (
            "a duration as ISO 8601 writes it",
            "admissionFairSharing: {usageHalfLifeTime: PT1H}",
            &[
                "admissionFairSharing.usageHalfLifeTime: Invalid value: \"PT1H\": must be a duration with the units d, h, m, s or ms",
            ],
        ),
        (
            "none of the names in a list",
            "fairSharing: {preemptionStrategies: [LessThanFinalShare]}",
            &[
                "fairSharing.preemptionStrategies[0]: Unsupported value: \"LessThanFinalShare\": supported values: \"LessThanOrEqualToFinalShare\", \"LessThanInitialShare\"",
            ],
        ),
        (
            "an empty list",
            "fairSharing: {preemptionStrategies: []}",
            &[
                "fairSharing.preemptionStrategies: Invalid value: \"[]\": must have at least one element",
            ],
        ),
        (
            "an element twice",
            "fairSharing: {preemptionStrategies: [LessThanInitialShare, LessThanInitialShare]}",
            &["fairSharing.preemptionStrategies[1]: Duplicate value: \"LessThanInitialShare\""],
        ),
        (
            "no key of a label",
            "queueLabelAliases: ['a b']",
            &[
                "queueLabelAliases[0]: Invalid value: \"a b\": must be the key of a label (such as \"kueue.x-k8s.io/queue-name\")",
            ],
        ),
        (
            "a key of Sluice",
            "queueGateAliases: [sluice.dev/queue-allocation-gate]",
            &[
                "queueGateAliases[0]: Invalid value: \"sluice.dev/queue-allocation-gate\": may not be a key of sluice.dev",
            ],
        ),
        (
            "no name of a resource",
            "ignoredResources: ['a b']",
            &["ignoredResources[0]: Invalid value: \"a b\": must be the name of a resource"],
        ),
        (
            "a missing field",
            "deviceClasses: [{name: example.com/gpu}]",
            &["deviceClasses[0].deviceClassNames: Required value: "],
        ),
        (
            "no DeviceClass",
            "deviceClasses: [{name: example.com/gpu, deviceClassNames: []}]",
            &["deviceClasses[0].deviceClassNames: Required value: must name a DeviceClass"],
        ),
        (
            "a field twice",
            "ignoredResources: []\nignoredResources: [cpu]",
            &[
                "the file is not one YAML document: line 4, column 1: Duplicate value: \"ignoredResources\": a field may be set only once",
            ],
        ),
        (
            "no YAML",
            "ignoredResources: [",
            &["the file is not one YAML document: "],
        ),
        (
            "two documents",
            "---\nkind: Configuration\n",
            &[
                "the file is not one YAML document: line 4, column 1: Forbidden: a second document; a configuration is one",
            ],
        ),
        (
            "a value of several lines",
            "undeclaredResources: \"a\\nb\"",
            &["undeclaredResources: Unsupported value: \"a\\nb\": supported values: "],
        ),
        (
            "all at once",
            "fairShare: {}\nqueueLabelAliases: [7, 'a b']\nundeclaredResources: 3\nignoredResources: [cpu, cpu]\nadmissionFairSharing: {usageHalfLifeTime: 0s, weights: 1}\n",
            &[
                "admissionFairSharing.weights: Forbidden: unknown field",
                "fairShare: Forbidden: unknown field",
                "queueLabelAliases[0]: Invalid value: \"7\": must be a text",
                "undeclaredResources: Unsupported value: \"3\"",
                "admissionFairSharing.usageHalfLifeTime: Invalid value: \"0s\"",
                "ignoredResources[1]: Duplicate value: \"cpu\"",
            ],
        ),
        (
            "a list of problems in elements",
            "deviceClasses: [{name: a b, deviceClassNames: [x]}, {name: pods, deviceClassNames: [x]}]",
            &[
                "deviceClasses[0].name: Invalid value: \"a b\"",
                "deviceClasses[1].name: Invalid value: \"pods\"",
                "deviceClasses[1].deviceClassNames[0]: Duplicate value: \"x\"",
            ],
        ),
    ];

    #[test]
    fn what_can_not_be_meant_is_refused_with_path_and_value() {
        for (name, fields, expected) in REFUSED {
            let told = refused(fields);
            assert_eq!(told.len(), expected.len(), "{name}: {told:#?}");
            for (told, expected) in told.iter().zip(expected) {
                assert!(told.starts_with(expected), "{name}: {told}");
                assert_eq!(told.lines().count(), 1, "{name}: {told}");
            }
        }
    }

    /// The start prints it.
    #[test]
    fn an_error_has_a_line_for_each_problem() {
        let error = parse(&format!(
            "{HEADER}fairShare: {{}}\nignoredResources: [cpu, cpu]\n"
        ));
        let error = error.unwrap_err();
        assert_eq!(error.to_string(), error.lines().join("\n"));
        assert_eq!(error.lines().len(), 2);
    }

    #[test]
    fn a_file_says_which_kind_it_is() {
        let version = "\"config.sluice.dev/v1alpha1\"";
        for (name, text, expected) in [
            (
                "nothing",
                "",
                "apiVersion: Required value: must be \"config.sluice.dev/v1alpha1\"",
            ),
            ("comments", "# soon\n", "apiVersion: Required value: "),
            (
                "fields alone",
                "queueLabelAliases: []\n",
                "apiVersion: Required value: ",
            ),
            (
                "another version",
                "apiVersion: config.sluice.dev/v1\nkind: Configuration\n",
                &format!(
                    "apiVersion: Unsupported value: \"config.sluice.dev/v1\": supported values: {version}"
                ),
            ),
            (
                "another kind",
                "apiVersion: config.sluice.dev/v1alpha1\nkind: ConfigMap\n",
                "kind: Unsupported value: \"ConfigMap\": supported values: \"Configuration\"",
            ),
            ("a list", "- a\n", ": Invalid value: "),
        ] {
            let told = parse(text).map(|_| ()).unwrap_err().lines();
            assert!(told[0].starts_with(expected), "{name}: {told:?}");
        }
        assert_eq!(parse(HEADER).unwrap(), Configuration::default());
    }

    #[test]
    fn what_is_printed_reads_as_the_same() {
        for fields in [
            "",
            "fairSharing:\n",
            "fairSharing: {preemptionStrategies: [LessThanInitialShare]}\nadmissionFairSharing: {usageHalfLifeTime: 90s}\n",
        ] {
            let read = parse(&format!("{HEADER}{fields}")).unwrap();
            let printed = serde_saphyr::to_string(&read).unwrap();
            assert_eq!(parse(&printed).unwrap(), read, "{printed}");
        }
    }
}
