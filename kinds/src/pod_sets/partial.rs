//! How an object says that it will do with fewer pods than it has: reads the annotation that says so.
//! The engine decides with how many it is admitted.

use serde_json::Value;

use crate::field::location::Location;
use crate::field::problem::Problem;
use crate::gates;
use crate::pod_sets::rule::{COUNT_MAX, Partial};
use crate::read::view::PodSetView;

impl Partial {
    /// The pod set `view` of `object`, with what `annotation` says of how many of its pods will do.
    pub(crate) fn read<'a>(
        &self,
        view: PodSetView,
        object: &Value,
        annotation: &dyn Fn(&str) -> Option<&'a str>,
    ) -> PodSetView {
        let asked = annotation(&self.annotation);
        PodSetView {
            min_count: asked.map(|asked| self.min_count(asked, view.count, object)),
            count_at: Some(Location::default().below(&self.field)),
            ..view
        }
    }

    fn min_count(&self, asked: &str, count: u32, object: &Value) -> Result<u32, Problem> {
        let at = gates::field_of(&self.annotation);
        let is_number = asked.bytes().all(|byte| byte.is_ascii_digit());
        let number = asked.parse().ok().filter(|_| is_number);
        // Of none there are no fewer; the number counts when there are some.
        let most = if count == 0 { COUNT_MAX } else { count };
        let Some(min_count) = number.filter(|number| (1..=most).contains(number)) else {
            let rule = format!("must be an integer between 1 and {most}, the number of pods");
            return Err(Problem::invalid(at, asked, rule));
        };
        // What is written there must be what was there before, when it is taken back.
        if min_count < count && self.field.get(object).and_then(Value::as_u64) != Some(count.into())
        {
            let field = self.field.field();
            let rule = format!(
                "requires {field} to be {count}, the number of pods: the number of admitted pods is written there"
            );
            return Err(Problem::invalid(at, asked, rule));
        }
        Ok(min_count)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::fixtures::{batch_job, job_kind};
    use crate::jobkind::kind::CompiledKind;
    use crate::read::requests::PodDefaults;

    #[test]
    fn the_annotation_says_how_many_will_do() {
        const AT: &str = "metadata.annotations[sluice.dev/min-parallelism]";
        let kind = CompiledKind::compile(&job_kind()).unwrap();
        let range = |value: &str, most: i32| {
            format!(
                "{AT}: Invalid value: {value:?}: must be an integer between 1 and {most}, the number of pods"
            )
        };
        let cases = [
            (json!(null), json!({"parallelism": 4}), "none".to_owned()),
            (json!("2"), json!({"parallelism": 4}), "2".to_owned()),
            (json!("4"), json!({"parallelism": 4}), "4".to_owned()),
            (json!("1"), json!({}), "1".to_owned()),
            (
                json!("2"),
                json!({"parallelism": 4, "completions": 9}),
                "2".to_owned(),
            ),
            (
                json!("2"),
                json!({"parallelism": 4, "completions": 2}),
                "2".to_owned(),
            ),
            (json!("7"), json!({"parallelism": 0}), "7".to_owned()),
            (json!("5"), json!({"parallelism": 4}), range("5", 4)),
            (
                json!("3"),
                json!({"parallelism": 4, "completions": 2}),
                range("3", 2),
            ),
            (json!("0"), json!({"parallelism": 4}), range("0", 4)),
            (json!("0"), json!({"parallelism": 0}), range("0", i32::MAX)),
            (json!("-1"), json!({"parallelism": 4}), range("-1", 4)),
            (json!("+2"), json!({"parallelism": 4}), range("+2", 4)),
            (json!("2.0"), json!({"parallelism": 4}), range("2.0", 4)),
            (json!(" 2"), json!({"parallelism": 4}), range(" 2", 4)),
            (json!(""), json!({"parallelism": 4}), range("", 4)),
            (json!("two"), json!({"parallelism": 4}), range("two", 4)),
            (
                json!("99999999999"),
                json!({"parallelism": 4}),
                range("99999999999", 4),
            ),
            (
                json!("1"),
                json!({"parallelism": 4, "completions": 2}),
                format!(
                    "{AT}: Invalid value: \"1\": requires spec.parallelism to be 2, the number of pods: the number of admitted pods is written there"
                ),
            ),
        ];
        for (asked, counts, expected) in cases {
            let mut job = batch_job();
            job["metadata"]["annotations"] = json!({});
            if !asked.is_null() {
                job["metadata"]["annotations"]["sluice.dev/min-parallelism"] = asked.clone();
            }
            for field in ["parallelism", "completions"] {
                job["spec"].as_object_mut().unwrap().remove(field);
            }
            for (field, count) in counts.as_object().unwrap() {
                job["spec"][field] = count.clone();
            }
            let sets = kind.pod_sets(&job, &PodDefaults::default()).unwrap();
            let told = match &sets[0].min_count {
                None => "none".to_owned(),
                Some(Ok(count)) => count.to_string(),
                Some(Err(problem)) => problem.to_string(),
            };
            assert_eq!(told, expected, "{asked} of {counts}");
        }
    }
}
