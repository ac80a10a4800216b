//! What commands share that show how something stands, once or again and again: their options, and the loop.

use std::time::{Duration, Instant};

use clap::Args;
use kube::Client;
use serde::Serialize;
use serde_json::Value;

use super::outcome::{Ended, LiveError, shown};
use crate::cluster::{
    Cluster, ClusterError, Connection, Format, NamespaceOptions, Namespaces, Tell, Told, is_closed,
    reader_gone,
};

/// How long a watch pauses at least between two looks.
const PAUSE_MIN: Duration = Duration::from_secs(2);
/// How many times as long as a look the pause after it is at least: a look lists everything anew, and those who watch a big
/// cluster must not keep its API server busy.
const PAUSE_PER_LOOK: u32 = 5;

/// The options: of a command that is about one object it is one namespace.
#[derive(Debug, Args)]
pub struct View<P: NamespaceOptions = Namespaces> {
    /// Output format: json, yaml, or wide, which has more columns where there are more.
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    pub output: Option<Format>,
    /// Print the output again whenever anything but ages has changed, until nobody reads it any more. It looks every two
    /// seconds; if a look is slow, it waits five times as long as the look took.
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    place: P,
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

impl View {
    /// The namespace that the command line names, if it names one.
    ///
    /// # Errors
    /// No namespace has such a name.
    pub fn named(&self) -> Result<Option<&str>, ClusterError> {
        self.place.named()
    }
}

/// How long to pause after a look that took so long.
fn pause_after(least: Duration, took: Duration) -> Duration {
    least.max(took.saturating_mul(PAUSE_PER_LOOK))
}

/// What is printed before a look: documents of YAML are told apart.
fn gap(is_later: bool, format: Option<Format>) -> &'static str {
    match (is_later, format) {
        (false, _) => "",
        (true, Some(Format::Yaml)) => "---\n",
        (true, _) => "\n",
    }
}

impl<P: NamespaceOptions> View<P> {
    /// Whether it is looked at again and again.
    pub fn is_watch(&self) -> bool {
        self.watch
    }

    /// Tells what `look` finds in the namespace, or in all, with its notes: once, or again whenever it is something else.
    ///
    /// # Errors
    /// The cluster does not answer the first look, or the result can't be written.
    pub async fn show(
        &self,
        tell: &mut Tell<'_>,
        mut look: impl AsyncFnMut(&Client, Option<&str>, &mut Tell<'_>) -> Result<Look, LiveError>,
    ) -> Result<Ended, LiveError> {
        let cluster = Cluster::connect(&self.connection).await?;
        let namespace = self.place.of(&cluster)?;
        let look =
            async |note: &mut Tell<'_>| look(&cluster.client, namespace.as_deref(), note).await;
        let looks = self.looks(PAUSE_MIN, tell, look);
        if !self.watch {
            return looks.await;
        }
        tokio::select! {
            ended = looks => ended,
            // Nothing may change for long, and nothing is written then.
            () = reader_gone() => Ok(Ended::Done),
        }
    }

    /// The loop, which goes on when a later look fails: an API server may be away for a moment.
    async fn looks(
        &self,
        pause: Duration,
        tell: &mut Tell<'_>,
        mut look: impl AsyncFnMut(&mut Tell<'_>) -> Result<Look, LiveError>,
    ) -> Result<Ended, LiveError> {
        let mut told: Option<Value> = None;
        let mut failure: Option<String> = None;
        loop {
            let mut notes = Vec::new();
            let mut note = |told| {
                notes.push(told);
                Ok(())
            };
            let mut is_read = true;
            let began = Instant::now();
            let found = look(&mut note).await;
            // An API server that did not answer for long is asked again soon.
            let took = found.as_ref().map_or(Duration::ZERO, |_| began.elapsed());
            match found {
                Ok(found) => {
                    // What is back is told again, be it the same.
                    let is_back = failure.take().is_some();
                    if is_back || told.as_ref() != Some(&found.known) {
                        let gap = gap(told.is_some(), self.output);
                        match tell(Told::Result(format!("{gap}{}", found.text))) {
                            Err(error) if is_closed(&error) => is_read = false,
                            told => told?,
                        }
                        notes.into_iter().try_for_each(&mut *tell)?;
                    }
                    told = Some(found.known);
                }
                Err(why) if told.is_some() && may_get_better(&why) => {
                    let why = why.to_string();
                    if failure.as_ref() != Some(&why) {
                        tell(Told::Note(format!("refresh failed, retrying: {why}")))?;
                    }
                    failure = Some(why);
                }
                Err(why) => return Err(why),
            }
            if !(self.watch && is_read) {
                return Ok(Ended::Done);
            }
            tokio::time::sleep(pause_after(pause, took)).await;
        }
    }
}

/// Whether it is the cluster that fails, and not the command.
fn may_get_better(why: &LiveError) -> bool {
    matches!(
        why,
        LiveError::Cluster(_) | LiveError::NotQueued(_) | LiveError::Resource(_)
    )
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches as _};
    use serde_json::json;

    use super::*;

    fn view(arguments: &[&str]) -> View {
        let command = View::<Namespaces>::augment_args(Command::new("list"));
        let words = ["list"].iter().chain(arguments);
        View::from_arg_matches(&command.get_matches_from(words)).unwrap()
    }

    /// What is told of looks that find these, and how it ends. What can't be printed ends a watch.
    async fn told(view: &View, looks: &[Result<&str, &str>]) -> (Vec<String>, String) {
        let mut looks = looks.iter();
        let mut told = Vec::new();
        let mut tell = |line| {
            told.push(match line {
                Told::Result(text) => text,
                Told::Note(text) | Told::Error(text) => format!("note: {text}"),
            });
            Ok(())
        };
        let look = async |_: &mut Tell<'_>| match looks.next() {
            Some(Ok(found)) => Look::of(None, found, |_| format!("{found}\n")),
            Some(Err(why)) => Err(LiveError::Cluster(ClusterError::Connection(
                (*why).to_owned(),
            ))),
            None => Err(LiveError::Unprintable("no more".to_owned())),
        };
        let ended = view.looks(Duration::ZERO, &mut tell, look).await;
        let ended = ended.map_or_else(|why| why.to_string(), |ended| format!("{ended:?}"));
        (told, ended)
    }

    #[tokio::test]
    async fn a_watch_goes_on_when_a_later_look_fails() {
        let away = "note: refresh failed, retrying: can't connect: away";
        let looks = [
            Ok("a"),
            Ok("a"),
            Err("away"),
            Err("away"),
            Err("refused"),
            Ok("a"),
            Ok("b"),
            Err("away"),
        ];
        let expected = [
            "a\n",
            away,
            "note: refresh failed, retrying: can't connect: refused",
            "\na\n",
            "\nb\n",
            away,
        ];
        let (lines, ended) = told(&view(&["-w"]), &looks).await;
        assert_eq!(lines, expected);
        assert_eq!(ended, "can't print the result: no more");
    }

    #[tokio::test]
    async fn a_first_look_that_fails_ends_it() {
        for arguments in [&[][..], &["-w"]] {
            let (lines, ended) = told(&view(arguments), &[Err("away"), Ok("a")]).await;
            assert_eq!((lines.len(), ended.as_str()), (0, "can't connect: away"));
        }
        let (lines, ended) = told(&view(&[]), &[Ok("a"), Ok("b")]).await;
        assert_eq!((lines, ended.as_str()), (vec!["a\n".to_owned()], "Done"));
    }

    /// As in `kubectl sluice list -w | head -5`.
    #[tokio::test]
    async fn a_watch_ends_when_nobody_reads_it() {
        for arguments in [&[][..], &["-w"]] {
            let mut looks = 0;
            let look = async |note: &mut Tell<'_>| {
                looks += 1;
                note(Told::Note("less".to_owned()))?;
                Look::of(None, &looks, |_| format!("{looks}\n"))
            };
            let mut notes = 0;
            let mut tell = |told| match told {
                Told::Result(text) if text == "1\n" && !arguments.is_empty() => Ok(()),
                Told::Result(_) => Err(std::io::ErrorKind::BrokenPipe.into()),
                Told::Note(_) | Told::Error(_) => {
                    notes += 1;
                    Ok(())
                }
            };
            let view = view(arguments);
            let ended = view.looks(Duration::ZERO, &mut tell, look).await;
            assert_eq!(ended.unwrap(), Ended::Done);
            let times = 1 + arguments.len();
            assert_eq!((looks, notes), (times, times), "{arguments:?}");
        }
    }

    #[test]
    fn what_takes_long_is_looked_at_less_often() {
        let pause = |took| pause_after(PAUSE_MIN, Duration::from_millis(took));
        assert_eq!(pause(100), Duration::from_secs(2));
        assert_eq!(pause(30_000), Duration::from_secs(150));
    }

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
