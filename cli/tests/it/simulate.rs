//! `kubectl sluice simulate`: what it prints and draws, and how it ends.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use insta::assert_snapshot;
use serde_json::Value;

const QUEUES: &str = "-f queues.yaml";
const ALL: &str = "-f queues.yaml -f jobs.yaml --trace trace.csv";

/// How a run of the plugin ended.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// All that a user sees of it.
    fn seen(&self) -> String {
        let Self {
            code,
            stdout,
            stderr,
        } = self;
        format!("{stdout}--- errors\n{stderr}--- exit code {code:?}\n")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// Simulates in the directory `directory`. Words are divided by spaces.
pub(crate) fn simulate_in(directory: &Path, arguments: &str, stdin: &str) -> Run {
    let mut plugin = Command::new(env!("CARGO_BIN_EXE_kubectl-sluice"))
        .arg("simulate")
        .args(arguments.split(' '))
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A run that reads no standard input may be over already.
    let _ = plugin.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = plugin.wait_with_output().unwrap();
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Simulates with the samples.
fn simulate(arguments: &str) -> Run {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/samples/simulate");
    simulate_in(&samples, arguments, "")
}

/// Simulates with the test files.
fn with_test_files(arguments: &str, stdin: &str) -> Run {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/simulate");
    simulate_in(&files, arguments, stdin)
}

/// A file of its own.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn the_sample_for_people() {
    assert_snapshot!(simulate(ALL).seen());
}

#[test]
fn the_sample_with_another_quota() {
    assert_snapshot!(simulate(&format!("{ALL} --compare more-gpus.yaml")).seen());
}

#[test]
fn the_sample_until_a_moment() {
    let run = simulate(&format!("{ALL} --until 1h"));
    let text: String = run.stdout.split_inclusive('\n').take(9).collect();
    assert_snapshot!(text);
}

#[test]
fn pending_jobs_are_listed_with_reasons() {
    let text = simulate(&format!("{ALL} --until 1h30m")).stdout;
    let (_, told) = text.split_once("\nFirst pending").unwrap();
    assert_snapshot!(told);
    // No more than a few of each queue.
    let run = with_test_files(
        "-f ../../../../config/samples/simulate/queues.yaml -f -",
        TOO_LARGE,
    );
    let (_, told) = run.stdout.split_once("\nFirst pending").unwrap();
    assert_snapshot!(told);
}

const TOO_LARGE: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: speech
  labels: {sluice.dev/queue-name: main}
  annotations: {sluice.dev/simulate-duration: "5"}
spec:
  replicas: 5
  template:
    spec: {containers: [{name: web, resources: {requests: {cpu: 1000}}}]}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: astray
  namespace: speech
  labels: {sluice.dev/queue-name: missing}
  annotations: {sluice.dev/simulate-duration: "5"}
spec: {template: {spec: {containers: [{name: main}]}}}
"#;

#[test]
fn one_job_is_explained_at_a_moment() {
    assert_snapshot!(simulate(&format!("{ALL} --explain speech/nightly --at 1h30m")).seen());
    let json = simulate(&format!("{ALL} --explain nightly --at 1h30m -o json")).json();
    let yaml = simulate(&format!("{ALL} --explain nightly --at 1h30m -o yaml")).stdout;
    assert_eq!(json, serde_saphyr::from_str::<Value>(&yaml).unwrap());
    assert_snapshot!(serde_json::to_string_pretty(&json).unwrap());
    let states = [
        ("59m", "arrives at 1h"),
        ("1h39m", "running since 1h39m"),
        ("4h", "finished at 2h24m"),
    ];
    for (at, state) in states {
        let text = simulate(&format!("{ALL} --explain nightly --at {at}")).stdout;
        assert!(text.contains(&format!(" {state}\n")), "{text}");
    }
}

#[test]
fn what_is_explained_is_one_job() {
    let at = "error: --explain: Invalid value: ";
    let none =
        format!("{at}\"nobody\": must be the name, or namespace/name, of a job in the input\n");
    let many = format!(
        "{at}\"run-1\": is more than one job (vision/run-1, speech/run-1, ...): must be the namespace and name of one\n"
    );
    let twice = "arrival,name,queue,duration\n0,run-1,vision/main,1\n0,run-1,speech/main,1\n";
    for (name, expected) in [("nobody", none), ("run-1", many)] {
        let run = with_test_files(
            &format!(
                "-f ../../../../config/samples/simulate/queues.yaml --trace - --explain {name}"
            ),
            twice,
        );
        assert_eq!((run.code, run.stderr), (Some(2), expected));
    }
}

#[test]
fn figures_for_programs() {
    let json = simulate(&format!("{ALL} -o json")).json();
    let yaml: Value = serde_saphyr::from_str(&simulate(&format!("{ALL} -o yaml")).stdout).unwrap();
    assert_eq!(json, yaml);
    let mut short = json;
    // 240 numbers each: the chart is their picture.
    let usage = short["series"]["usage"].as_array_mut().unwrap();
    for series in usage {
        assert_eq!(series["values"].as_array().unwrap().len(), 240);
        series["values"] = Value::Null;
    }
    for (_, values) in short["series"]["waiting"].as_object_mut().unwrap() {
        *values = Value::Null;
    }
    assert_snapshot!(serde_json::to_string_pretty(&short).unwrap());
}

#[test]
fn the_picture_is_the_same_each_time() {
    let (one, other) = (file("one.svg"), file("other.svg"));
    for path in [&one, &other] {
        let run = simulate(&format!(
            "{ALL} --compare more-gpus.yaml --svg {}",
            path.display()
        ));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
    }
    let drawn = fs::read_to_string(&one).unwrap();
    assert_eq!(drawn, fs::read_to_string(&other).unwrap());
    assert_snapshot!(drawn);
}

#[test]
fn all_problems_are_reported_at_once() {
    assert_snapshot!(
        with_test_files("-f bad-queues.yaml,bad-jobs.yaml --trace bad.csv", "").seen()
    );
}

#[test]
fn what_is_compared_are_queues() {
    assert_snapshot!(simulate(&format!("{ALL} --compare jobs.yaml")).seen());
}

#[test]
fn there_must_be_something_to_play() {
    let cases = [
        (
            QUEUES,
            1,
            "error: the input: there is no job: at least one is required\n",
        ),
        (
            "-f missing.yaml --trace missing.csv",
            2,
            "error: the path \"missing.yaml\" does not exist\nerror: the path \"missing.csv\" does not exist\n",
        ),
        (
            "-f queues.yaml --trace trace.csv --svg missing/x.svg",
            2,
            "error: the result can't be written: missing/x.svg: No such file or directory (os error 2)\n",
        ),
    ];
    for (arguments, code, stderr) in cases {
        let run = simulate(arguments);
        assert_eq!(
            (run.code, run.stderr.as_str()),
            (Some(code), stderr),
            "{arguments}"
        );
    }
    let run = simulate("-f queues.yaml --until soon");
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("must be a duration"), "{}", run.stderr);
}

#[test]
fn jobs_that_name_no_queue_are_told_where_there_are_no_others() {
    let job = |name: &str| {
        format!("---\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, namespace: a}}\n")
    };
    let run = |jobs: &str| {
        with_test_files(
            "-f ../../../../config/samples/simulate/queues.yaml -f -",
            jobs,
        )
    };
    let none = "error: the input: there is no job: at least one is required\n";
    let one = run(&job("one"));
    let told = "error: the input: Job \"a/one\" was skipped: it names no queue (label sluice.dev/queue-name), is inactive, or has no JobKind\n";
    assert_eq!((one.code, one.stderr), (Some(1), format!("{none}{told}")));
    let two = run(&(job("one") + &job("two")));
    let told = "error: the input: 2 objects were skipped, the first Job \"a/one\": they name no queue (label sluice.dev/queue-name), are inactive, or have no JobKind\n";
    assert_eq!((two.code, two.stderr), (Some(1), format!("{none}{told}")));
}

#[test]
fn queues_of_kueue_are_told_by_their_version() {
    let queue =
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: q}\nspec: {}\n";
    let told = "error: STDIN, document 1, ClusterQueue \"q\": apiVersion: Unsupported value: \"kueue.x-k8s.io/v1beta2\": supported values: \"sluice.dev/v1alpha1\"\n";
    for arguments in [
        "-f -",
        "-f ../../../../config/samples/simulate/queues.yaml --compare -",
    ] {
        let run = with_test_files(arguments, queue);
        assert_eq!((run.code, &*run.stderr), (Some(1), told), "{arguments}");
    }
}

#[test]
fn what_goes_with_job_kinds_is_passed_over() {
    let run = with_test_files(
        "-f ../../../../config/samples/simulate/queues.yaml -f ../../../../config/samples/simulate/jobs.yaml -f ../../../../config/jobkinds --compare ../../../../config/jobkinds/kustomization.yaml",
        "",
    );
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

#[test]
fn jobs_are_taken_as_a_cluster_has_them() {
    // Workloads tell when they came and how long they ran; pods of a Deployment are admitted one by one.
    let run = with_test_files(
        "-f ../../../../config/samples/simulate/queues.yaml -f - -o json",
        CLUSTER,
    );
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (Some(0), NOTE),
        "{}",
        run.stdout
    );
    let json = run.json();
    let all = &json["all"];
    assert_eq!((&all["jobs"], &all["finished"]), (&4.into(), &4.into()));
    // From the first arrival at 12:00:00 to 12:01:00 and 90 s.
    assert_eq!(json["makespanSeconds"], 150);
    let names = |groups: &Value| -> Vec<String> {
        let groups = groups.as_array().unwrap().iter();
        groups
            .map(|group| group["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&json["priorities"]), ["production (1000)", "5", "0"]);
    assert_eq!(names(&json["sizes"]), ["cpu=1", "cpu=2 pods=2"]);
}

#[test]
fn a_job_that_says_so_is_played_with_fewer_pods() {
    let queues = "../../../../config/samples/simulate/queues.yaml";
    let run = with_test_files(&format!("-f {queues} -f - -o json"), FEWER_WILL_DO);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let json = run.json();
    let all = &json["all"];
    // 12 of 14, and what 14 do in a minute takes them 70 s; the other waits for all its pods in vain.
    let told = [
        "finished",
        "partialAdmissions",
        "podsLeftOut",
        "neverAdmitted",
    ];
    assert_eq!(told.map(|key| &all[key]), [1, 1, 2, 1]);
    assert_eq!(json["makespanSeconds"], 70);
}

const FEWER_WILL_DO: &str = r#"
apiVersion: batch/v1
kind: Job
metadata:
  name: elastic
  namespace: speech
  labels: {sluice.dev/queue-name: main}
  annotations: {sluice.dev/min-parallelism: "3", sluice.dev/simulate-duration: 1m}
spec:
  parallelism: 14
  completions: 14
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, resources: {requests: {nvidia.com/gpu: 1}}}]
---
apiVersion: batch/v1
kind: Job
metadata:
  name: whole
  namespace: speech
  labels: {sluice.dev/queue-name: main}
  annotations: {sluice.dev/simulate-duration: 1m}
spec:
  parallelism: 14
  completions: 14
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, resources: {requests: {nvidia.com/gpu: 1}}}]
"#;

const NOTE: &str = "note: Job \"speech/nobody\" was skipped: it names no queue (label sluice.dev/queue-name), is inactive, or has no JobKind\n";

const CLUSTER: &str = r#"
apiVersion: v1
kind: List
items:
  - apiVersion: sluice.dev/v1alpha1
    kind: Workload
    metadata: {name: a, namespace: vision, creationTimestamp: "2026-01-31T12:00:00Z"}
    spec:
      queueName: main
      priority: 1
      priorityClassRef: {group: sluice.dev, kind: WorkloadPriorityClass, name: production}
      podSets: [{name: main, count: 2, requests: {cpu: 1}}]
    status:
      conditions:
        - {type: Admitted, status: "True", reason: Admitted, message: "", lastTransitionTime: "2026-01-31T12:00:10Z"}
        - {type: Finished, status: "True", reason: Succeeded, message: "", lastTransitionTime: "2026-01-31T12:01:10Z"}
  - apiVersion: sluice.dev/v1alpha1
    kind: Workload
    metadata:
      name: b
      namespace: vision
      creationTimestamp: "2026-01-31T12:01:00Z"
      annotations: {sluice.dev/simulate-duration: 90s}
    spec: {queueName: main, priority: 5, podSets: [{name: main, count: 1, requests: {cpu: 1}}]}
  - apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: speech
      labels: {sluice.dev/queue-name: main}
      annotations: {sluice.dev/simulate-duration: "5"}
    spec:
      replicas: 2
      template:
        spec: {containers: [{name: web, resources: {requests: {cpu: 1}}}]}
  - apiVersion: batch/v1
    kind: Job
    metadata: {name: nobody, namespace: speech}
    spec: {template: {spec: {containers: [{name: main}]}}}
"#;
