//! What commands share that show how something stands, once or again and again: their options, and the loop.

use std::time::Duration;

use clap::Args;
use kube::Client;
use serde::Serialize;
use serde_json::Value;

use super::outcome::{Ended, LiveError, shown};
use crate::cluster::{Cluster, Connection, Format, Namespaces, Tell, Told};

/// How often what is watched is looked at.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(2);

/// The options.
#[derive(Debug, Args)]
pub struct View {
    /// Output format: json, yaml, or wide, which has more columns where there are more.
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    pub output: Option<Format>,
    /// Look again every two seconds, and print all of it again when something has changed besides ages.
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    namespaces: Namespaces,
    #[command(flatten)]
    connection: Connection,
}

/// What is found at a time.
#[derive(Debug)]
pub struct Look {
    /// What is printed, with ages, which tick.
    text: String,
    /// What is known, by which a change is seen.
    known: Value,
}

impl Look {
    /// The `rows` in the form that was asked for; `table` makes the one for people, wide or not.
    ///
    /// # Errors
    /// They can't be printed.
    pub fn of(
        format: Option<Format>,
        rows: &impl Serialize,
        table: impl FnOnce(bool) -> String,
    ) -> Result<Self, LiveError> {
        let known = serde_json::to_value(rows);
        Ok(Self {
            text: shown(format, rows, table)?,
            known: known.map_err(|error| LiveError::Unprintable(error.to_string()))?,
        })
    }

    /// The same, where this field of this part ticks as ages do.
    pub fn but_for(mut self, part: &str, field: &str) -> Self {
        if let Some(Value::Object(fields)) = self.known.pointer_mut(part) {
            fields.remove(field);
        }
        self
    }
}

/// What is printed before a look: documents of YAML are told apart.
fn gap(is_later: bool, format: Option<Format>) -> &'static str {
    match (is_later, format) {
        (false, _) => "",
        (true, Some(Format::Yaml)) => "---\n",
        (true, _) => "\n",
    }
}

impl View {
    /// Whether it is looked at again and again.
    pub fn is_watch(&self) -> bool {
        self.watch
    }

    /// That it is about one object.
    ///
    /// # Errors
    /// All namespaces are asked for.
    pub fn in_one_namespace(&self) -> Result<(), LiveError> {
        if self.namespaces.all_namespaces {
            Err(LiveError::OneNamespace)
        } else {
            Ok(())
        }
    }

    /// Tells what `look` finds in the namespace, or in all, with its notes: once, or again whenever it is something else.
    ///
    /// # Errors
    /// The cluster does not answer, or the result can't be written.
    pub async fn show(
        &self,
        tell: &mut Tell<'_>,
        mut look: impl AsyncFnMut(&Client, Option<&str>, &mut Tell<'_>) -> Result<Look, LiveError>,
    ) -> Result<Ended, LiveError> {
        let cluster = Cluster::connect(&self.connection).await?;
        let namespace = cluster.namespace(&self.namespaces)?;
        let mut told: Option<Value> = None;
        loop {
            let mut notes = Vec::new();
            let mut note = |told| {
                notes.push(told);
                Ok(())
            };
            let found = look(&cluster.client, namespace.as_deref(), &mut note).await;
            if found.as_ref().ok().map(|found| &found.known) != told.as_ref() {
                if let Ok(found) = &found {
                    let gap = gap(told.is_some(), self.output);
                    tell(Told::Result(format!("{gap}{}", found.text)))?;
                }
                for note in notes {
                    tell(note)?;
                }
            }
            told = Some(found?.known);
            if !self.watch {
                return Ok(Ended::Done);
            }
            tokio::time::sleep(LOOKED_AT_EVERY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ages_are_no_change_and_documents_are_told_apart() {
        let look = |name: &str, age: &str| Look::of(None, &[name], |_| age.to_owned()).unwrap();
        assert_eq!(look("a", "1s").known, look("a", "2s").known);
        assert_ne!(look("a", "1s").known, look("b", "1s").known);
        let at = |taken: &str| {
            let found = json!({"explanation": {"taken": taken, "state": "Pending"}});
            let look = Look::of(None, &found, |_| String::new()).unwrap();
            look.but_for("/explanation", "taken").known
        };
        assert_eq!(at("1"), at("2"));
        let gaps = [
            None,
            Some(Format::Wide),
            Some(Format::Yaml),
            Some(Format::Json),
        ];
        assert_eq!(
            gaps.map(|format| gap(true, format)),
            ["\n", "\n", "---\n", "\n"]
        );
        assert_eq!(gap(false, Some(Format::Yaml)), "");
    }
}
