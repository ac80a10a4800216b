//! What it takes to read one object through its JobKind: time, and allocations.
//!
//! `cargo bench -p sluice-kinds --bench read`
#![allow(missing_docs)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench reads the shipped YAML"
)]

use divan::{AllocProfiler, Bencher, black_box};
use serde_json::{Value, json};
use sluice_crds::{ADMISSION_ANNOTATION, JobKind};
use sluice_kinds::CompiledKind;
use sluice_kinds::gates;
use sluice_kinds::metadata::annotation_text;
use sluice_kinds::requests::PodDefaults;

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

/// An object and its kind, of a running job.
struct Case {
    kind: JobKind,
    object: Value,
}

fn main() {
    divan::main();
}

fn parse<T: serde::de::DeserializeOwned>(yaml: &str) -> T {
    serde_saphyr::from_str(yaml).unwrap()
}

fn job() -> Case {
    let mut object: Value = parse(include_str!("../../config/samples/jobkinds/job.yaml"));
    object["spec"]["suspend"] = json!(false);
    object["status"] = json!({"active": 2, "ready": 2, "startTime": "2026-01-01T00:00:00Z"});
    Case {
        kind: parse(include_str!("../../config/jobkinds/job.yaml")),
        object,
    }
}

/// A RayJob with five groups of workers.
fn ray_job() -> Case {
    let mut object: Value = parse(include_str!("../../config/samples/jobkinds/rayjob.yaml"));
    let groups = &mut object["spec"]["rayClusterSpec"]["workerGroupSpecs"];
    let group = groups[0].clone();
    *groups = (0..5)
        .map(|place| {
            let mut group = group.clone();
            group["groupName"] = json!(format!("group-{place}"));
            group
        })
        .collect();
    object["spec"]["suspend"] = json!(false);
    object["status"] = json!({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"});
    Case {
        kind: parse(include_str!("../../config/jobkinds/rayjob.yaml")),
        object,
    }
}

fn read(bencher: Bencher<'_, '_>, case: &Case) {
    let kind = CompiledKind::compile(&case.kind).unwrap();
    let defaults = PodDefaults::default();
    let object = &case.object;
    bencher.bench_local(|| {
        let object = black_box(object);
        black_box((
            kind.suspended(object).unwrap(),
            kind.finished(object).unwrap(),
            kind.active(object).unwrap(),
            kind.ready(object).ok(),
            kind.pod_sets(object, &defaults).unwrap(),
            kind.holding(
                object,
                &gates::read(&gates::gate_annotations(object)),
                annotation_text(object, ADMISSION_ANNOTATION),
            ),
        ))
    });
}

#[divan::bench]
fn a_job(bencher: Bencher<'_, '_>) {
    read(bencher, &job());
}

#[divan::bench]
fn a_ray_job_with_five_groups(bencher: Bencher<'_, '_>) {
    read(bencher, &ray_job());
}

#[divan::bench]
fn compile_the_kind_of_jobs(bencher: Bencher<'_, '_>) {
    let Case { kind, .. } = job();
    bencher.bench_local(|| CompiledKind::compile(black_box(&kind)).unwrap());
}
