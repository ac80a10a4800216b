//! The keys that name a queue besides Sluice's own, as its configuration has them. The configuration itself is read by
//! the controller alone.

use clap::Args;
use serde_json::Value;
use sluice_kinds::aliases::QUEUE_ANNOTATION_ALIASES;

use crate::rules::queue_names::LabelAliases;

/// The options.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct QueueKeys {
    #[command(flatten)]
    labels: LabelAliases,
    /// Annotations that name a queue, as in Sluice's configuration.
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    queue_annotation_aliases: Vec<String>,
}

impl QueueKeys {
    /// Whether this metadata, of an object or of a template, names a queue.
    pub(super) fn names_queue(&self, metadata: &Value) -> bool {
        let has = |of: &str, key: &str| metadata.get(of).is_some_and(|all| all.get(key).is_some());
        let mut presets = self.labels.keys(QUEUE_ANNOTATION_ALIASES);
        let mut annotations = self.queue_annotation_aliases.iter();
        self.labels.labels().keys().any(|key| has("labels", key))
            || annotations.any(|key| has("annotations", key))
            || presets.any(|key| has("annotations", key))
    }

    /// Those of Kueue.
    #[cfg(test)]
    pub(super) fn of_kueue() -> Self {
        Self {
            labels: LabelAliases::of_kueue(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches as _};
    use serde_json::json;

    use super::*;

    fn keys(arguments: &[&str]) -> QueueKeys {
        let command = QueueKeys::augment_args(Command::new("audit"));
        let words = ["audit"].iter().chain(arguments);
        QueueKeys::from_arg_matches(&command.get_matches_from(words)).unwrap()
    }

    #[test]
    fn a_queue_is_named_by_an_alias() {
        let own = json!({"labels": {"sluice.dev/queue-name": "q"}});
        let kueue = json!({"labels": {"kueue.x-k8s.io/queue-name": "q"}});
        let volcano = json!({"annotations": {"scheduling.volcano.sh/queue-name": "q"}});
        let cases: [(&[&str], [bool; 3]); 6] = [
            (&[], [true, false, false]),
            (&["--alias-presets", "Kueue"], [true, true, false]),
            (&["--alias-presets", "Kueue,Volcano"], [true, true, true]),
            (
                &["--queue-label-aliases", "a.io/q,kueue.x-k8s.io/queue-name"],
                [true, true, false],
            ),
            (
                &[
                    "--queue-annotation-aliases",
                    "scheduling.volcano.sh/queue-name",
                ],
                [true, false, true],
            ),
            // A label is no annotation.
            (
                &["--queue-label-aliases", "scheduling.volcano.sh/queue-name"],
                [true, false, false],
            ),
        ];
        for (arguments, expected) in cases {
            let keys = keys(arguments);
            let found = [&own, &kueue, &volcano].map(|metadata| keys.names_queue(metadata));
            assert_eq!(found, expected, "{arguments:?}");
        }
        assert!(!keys(&[]).names_queue(&json!(null)));
    }
}
