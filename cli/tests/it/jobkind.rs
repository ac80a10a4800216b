//! `kubectl sluice jobkind check`: what it prints, and how it ends.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use insta::assert_snapshot;

const JOBS: &str = "../../../config/samples/jobs";
const KINDS: &str = "../../../config/jobkinds";

/// How a run of the plugin ended.
#[derive(Debug, PartialEq)]
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Run {
    /// All that a user sees of it.
    fn seen(&self) -> String {
        let Self {
            code,
            stdout,
            stderr,
        } = self;
        let code = code.map_or_else(|| "by a signal".to_owned(), |code| code.to_string());
        format!("{stdout}--- errors\n{stderr}--- exit code {code}\n")
    }
}

/// Runs the check in the directory of the test files. Words are divided by spaces.
fn check(arguments: &str) -> Run {
    check_with(arguments, "")
}

fn check_with(arguments: &str, stdin: &str) -> Run {
    let mut plugin = Command::new(env!("CARGO_BIN_EXE_kubectl-sluice"))
        .args(["jobkind", "check"])
        .args(arguments.split(' '))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files"))
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

/// A directory of its own below that of this crate's test files.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

#[test]
fn the_rules_of_a_kind() {
    assert_snapshot!(check("-f pipeline-kind.yaml").seen());
}

#[test]
fn objects_with_all_there_is_to_see() {
    assert_snapshot!(check("-f pipeline-kind.yaml -f pipelines.yaml").seen());
}

#[test]
fn objects_for_programs() {
    let yaml = check("-f pipeline-kind.yaml -f pipelines.yaml -o yaml");
    assert_snapshot!(yaml.seen());
    let json = check("-f pipeline-kind.yaml -f pipelines.yaml -o json");
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let yaml: serde_json::Value = serde_saphyr::from_str(&yaml.stdout).unwrap();
    assert_eq!(json, yaml);
}

#[test]
fn the_shipped_kinds_and_samples() {
    assert_snapshot!(
        check(&format!(
            "-f {KINDS}/job.yaml,{KINDS}/deployment.yaml -f {JOBS}"
        ))
        .seen()
    );
}

#[test]
fn each_thing_that_is_wrong_with_objects() {
    assert_snapshot!(check("-f pipeline-kind.yaml -f misfits.yaml").seen());
    assert_snapshot!(check("-f pipeline-kind.yaml -f misfits.yaml -o yaml").seen());
}

#[test]
fn each_thing_that_is_wrong_with_kinds() {
    assert_snapshot!(check("-f pipeline-kind.yaml -f misfit-kinds.yaml").seen());
}

#[test]
fn the_rules_of_jobs() {
    assert_snapshot!(check(&format!("-f {KINDS}/job.yaml")).seen());
}

#[test]
fn what_goes_with_job_kinds_is_passed_over() {
    for files in [
        "-f ../../../config/samples/render/render.yaml",
        &format!("-f {KINDS}"),
    ] {
        let run = check(files);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{files}");
        assert!(!run.stdout.contains("ClusterRole"), "{}", run.stdout);
    }
    // A role that does not go with a JobKind gives Sluice no right.
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: render}\nrules: []\n";
    let run = check_with(&format!("-f {KINDS}/job.yaml -f -"), role);
    let told = "kind: Invalid value: \"ClusterRole\": no JobKind reads this kind";
    assert!(run.code == Some(1) && run.stdout.contains(told), "{run:?}");
}

#[test]
fn objects_of_other_kinds_are_passed_over_if_wished() {
    let run = check(&format!(
        "-f {KINDS}/job.yaml,{KINDS}/job-role.yaml -f pipelines.yaml --ignore-other-kinds -o json"
    ));
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["objects"], serde_json::json!([]));
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
}

#[test]
fn kinds_are_held_against_schemas() {
    let kind = check("-f pipeline-kind.yaml").stdout;
    let fits = kind.replacen("compiles", "compiles and fits the schema of its kind", 1);
    for schema in ["-f pipeline-crd.yaml", "--schema pipeline-crd.yaml"] {
        let run = check(&format!("-f pipeline-kind.yaml {schema}"));
        assert_eq!((run.code, &run.stdout), (Some(0), &fits), "{schema}");
    }
    let cases = [
        (
            "paths that are not there, or of another type",
            "-f pipeline-off-schema.yaml -f pipeline-crd.yaml",
            "jobkind.sluice.dev/pipeline does not fit:
  spec.suspend: Invalid value: \".spec.workers.count\": must name a boolean field: this one is an integer
  spec.podSets[1].template: Invalid value: \".spec.worker.template\": there is no field \"worker\" in .spec: there are driver, paused, workers
",
        ),
        (
            "a version that is not served",
            "-f pipeline-unserved.yaml -f pipeline-crd.yaml",
            "jobkind.sluice.dev/pipeline does not fit:
  spec.kind: Invalid value: \"Pipeline\": the published schema of acme.io/v2 has no such kind
",
        ),
        (
            "a schema of something else, by the user's wish",
            "-f ../../../config/jobkinds/job.yaml --schema pipeline-crd.yaml",
            "jobkind.sluice.dev/job does not fit:
  spec.kind: Invalid value: \"Job\": the published schema of batch/v1 has no such kind
",
        ),
    ];
    for (name, arguments, expected) in cases {
        let run = check(arguments);
        assert!(run.stdout.starts_with(expected), "{name}: {}", run.stdout);
        assert_eq!(
            run.stderr, "error: does not fit: 1 of 1 JobKinds\n",
            "{name}"
        );
        assert_eq!(run.code, Some(1), "{name}");
    }
    let run = check(&format!("-f {KINDS}/job.yaml -f pipeline-crd.yaml"));
    assert_eq!(
        run.code,
        Some(0),
        "a schema of something else, by the way: {run:?}"
    );
}

#[test]
fn a_schema_as_the_api_server_publishes_it() {
    let directory = directory("openapi");
    let document = directory.join("openapi.json");
    let published = serde_json::json!({"openapi": "3.0.0", "components": {"schemas": {
        "Pipeline": {
            "x-kubernetes-group-version-kind": [{"group": "acme.io", "version": "v1", "kind": "Pipeline"}],
            "properties": {
                "spec": {"allOf": [{"$ref": "#/components/schemas/Spec"}]},
                "status": {"type": "object"},
            },
        },
        "Spec": {"properties": {
            "paused": {"type": "boolean"},
            "driver": {"type": "object"},
            "workers": {"properties": {
                "template": {"type": "object"},
                "count": {"type": "integer"},
            }},
        }},
    }}});
    fs::write(&document, published.to_string()).unwrap();
    let schema = format!("--schema {}", document.display());
    assert_eq!(
        check(&format!("-f pipeline-kind.yaml {schema}")).code,
        Some(0)
    );
    assert_eq!(
        check(&format!("-f pipeline-off-schema.yaml {schema}")).code,
        Some(1)
    );
}

#[test]
fn what_cannot_be_read() {
    let directory = directory("unreadable");
    let file = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let yaml = file("broken.yaml", "a: [");
    let json = file("broken.json", "{\"a\": ");
    let bare = file("bare.yaml", "kind: Job\n");
    let nameless = file("nameless.yaml", "apiVersion: batch/v1\n");
    let empty = file("empty.yaml", "# nothing\n");
    let cases = [
        (
            "all at once",
            format!("-f nowhere.yaml,{json} -f {yaml}"),
            format!(
                "error: the path \"nowhere.yaml\" does not exist\n\
                 error: can't parse \"{json}\": EOF while parsing a value at line 1 column 6\n\
                 error: can't parse \"{yaml}\": "
            ),
        ),
        (
            "documents that are no objects",
            format!("-f {bare},{nameless}"),
            format!(
                "error: a document in \"{bare}\" is not a Kubernetes object: apiVersion is missing\n\
                 error: a document in \"{nameless}\" is not a Kubernetes object: kind is missing\n"
            ),
        ),
        (
            "nothing",
            format!("-f {empty}"),
            "error: there is no JobKind in the files: at least one is required\n".to_owned(),
        ),
        (
            "objects alone",
            "-f pipelines.yaml".to_owned(),
            "error: there is no JobKind in the files: at least one is required\n".to_owned(),
        ),
        (
            "a schema that is none",
            "-f pipeline-kind.yaml --schema pipelines.yaml".to_owned(),
            "error: a document in \"pipelines.yaml\" is neither an OpenAPI v3 document nor a CustomResourceDefinition\n".to_owned(),
        ),
        (
            "no files",
            "-o json".to_owned(),
            "error: the following required arguments were not provided:\n  --filename <FILE>\n".to_owned(),
        ),
        (
            "an unknown format",
            "-f pipeline-kind.yaml -o wide".to_owned(),
            "error: invalid value 'wide' for '--output <FORMAT>'\n".to_owned(),
        ),
    ];
    for (name, arguments, expected) in cases {
        let run = check(&arguments);
        assert!(run.stderr.starts_with(&expected), "{name}: {}", run.stderr);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{name}");
    }
}

#[test]
fn deep_documents_are_read_and_endless_ones_are_not() {
    let nested = |depth: usize| {
        (0..depth).fold(String::new(), |text, level| {
            text + " ".repeat(level).as_str() + "properties:\n"
        })
    };
    let cases = [
        (
            60,
            "error: a document in \"STDIN\" is not a Kubernetes object: apiVersion is missing\n",
        ),
        (1000, "error: can't parse \"STDIN\": "),
    ];
    for (depth, expected) in cases {
        let run = check_with("-f -", &nested(depth));
        assert!(run.stderr.starts_with(expected), "{depth}: {}", run.stderr);
        assert_eq!(run.code, Some(2), "{depth}");
    }
}

#[test]
fn files_of_a_directory_and_those_below() {
    let directory = directory("tree");
    let kind = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/pipeline-kind.yaml"),
    );
    fs::create_dir(directory.join("below")).unwrap();
    fs::write(directory.join("below/kind.yml"), kind.unwrap()).unwrap();
    fs::write(directory.join("README.md"), "not: [yaml").unwrap();
    let path = directory.display();
    assert_eq!(
        check(&format!("-f {path}")).code,
        Some(2),
        "no JobKind there"
    );
    assert_eq!(check(&format!("-R -f {path}")).code, Some(0));
}

#[test]
fn aliases_are_those_of_the_configuration() {
    let object = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/pipelines.yaml"),
    );
    let object = object
        .unwrap()
        .replace("sluice.dev/queue-name", "acme.io/queue")
        .replace("name: acme.io/volume", "name: acme.io/queue-gate");
    let report = |aliases: &str| -> serde_json::Value {
        let run = check_with(
            &format!("-f pipeline-kind.yaml -f - -o json{aliases}"),
            &object,
        );
        let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        report["objects"][0].clone()
    };
    let external = "/podSets/1/externalGates";
    let plain = report("");
    assert_eq!(plain["queue"], serde_json::Value::Null);
    assert_eq!(plain.pointer(external).unwrap(), true);
    let aliased =
        report(" --queue-label-aliases acme.io/queue --queue-gate-aliases acme.io/queue-gate");
    assert_eq!(aliased["queue"], "main");
    assert_eq!(aliased.pointer(external).unwrap(), false);
}

#[test]
fn keys_of_presets_are_read_as_sluice_s_own() {
    let object = "---\n{apiVersion: batch/v1, kind: Job, metadata: {name: x, annotations: {scheduling.volcano.sh/queue-name: \
                  main}}, spec: {template: {spec: {containers: [{name: c}]}}}}";
    let queue = |aliases: &str| -> serde_json::Value {
        let arguments = format!("-f {KINDS}/job.yaml -f - -o json{aliases}");
        let run = check_with(&arguments, object);
        let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        report["objects"][0]["queue"].clone()
    };
    assert_eq!(queue(""), serde_json::Value::Null);
    assert_eq!(queue(" --alias-presets Volcano"), "main");
}

#[test]
fn an_object_is_held_as_asked_at_creation_and_then_as_its_templates_say() {
    let hold = |uid: &str| {
        let object = format!(
            "{{apiVersion: acme.io/v1, kind: Pipeline, \
              metadata: {{name: x, {uid} annotations: {{sluice.dev/admission: PerPod}}}}, \
              spec: {{driver: {{}}, workers: {{count: 1, template: {{}}}}}}}}"
        );
        let run = check_with(
            "-f pipeline-kind.yaml -f - -o json",
            &format!("---\n{object}"),
        );
        let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        report["objects"][0]["hold"].clone()
    };
    assert_eq!(hold(""), "EachPod");
    assert_eq!(hold("uid: 1234-abcd,"), "Suspend");
}

#[test]
fn help_tells_the_exit_codes() {
    let run = check("--help");
    assert_eq!(run.code, Some(0));
    assert!(
        run.stdout.contains("Exit codes:\n  0  everything fits\n"),
        "{}",
        run.stdout
    );
    assert!(
        run.stdout.contains("Usage: kubectl sluice jobkind check "),
        "{}",
        run.stdout
    );
}

/// Names can't have them; what objects say besides can, and a terminal would do as they say.
#[test]
fn no_character_of_an_object_reaches_the_terminal_that_steers_it() {
    let job = r#"{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j\u001b]0;x\u0007", "namespace": "n\u009b31m",
        "labels": {"sluice.dev/queue-name": "q\u001b[2J"},
        "annotations": {"kueue.x-k8s.io/scheduling-gated-by": "a\u001b[31m\rb"}},
        "spec": {"template": {"spec": {"containers": []}}}}"#;
    let bad = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    for form in ["", " -o yaml", " -o json"] {
        let run = check_with(&format!("-f {KINDS} -f -{form}"), job);
        assert!(run.stdout.contains("[2J"), "{run:?}");
        assert!(!run.stdout.contains(bad), "{run:?}");
        assert!(!run.stderr.contains(bad), "{run:?}");
    }
    let run = check_with("-f -", "kind: \"J\\u001b[2J\"\napiVersion: \"x\\u009b/\"\n");
    assert!(!run.seen().contains(bad), "{run:?}");
}
