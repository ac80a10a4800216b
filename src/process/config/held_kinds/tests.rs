//! Whatever way the JobKinds of a folder are written, none is left out.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::*;

const RENDER: &str = include_str!("../../../../config/samples/render/render.yaml");

/// The paths of files in a folder, with what they say.
type Files<'a> = &'a [(&'a str, &'a str)];

/// How many kinds are read of a folder with these files, or what is wrong.
fn read_of(name: &str, files: Files<'_>) -> Result<usize, String> {
    let folder = std::env::temp_dir().join(format!("sluice-{name}-{}", std::process::id()));
    for (file, text) in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, text).unwrap();
    }
    let kinds = read(&folder);
    fs::remove_dir_all(&folder).unwrap();
    let shown = folder.display().to_string() + "/";
    kinds
        .map(|kinds| kinds.len())
        .map_err(|error| format!("{error:#}").replace(&shown, ""))
}

/// The two documents of the sample.
fn parts() -> [&'static str; 2] {
    let (job_kind, role) = RENDER.split_once("\n---\n").unwrap();
    [job_kind, role]
}

#[test]
fn a_role_is_in_the_file_of_its_job_kind_or_beside_it() {
    let [job_kind, role] = parts();
    let documents: Vec<Value> = parts()
        .iter()
        .map(|text| serde_saphyr::from_str(text).unwrap())
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": documents}).to_string();
    let cases: [(&str, Files<'_>); 6] = [
        ("one-file", &[("render.yaml", RENDER)]),
        ("one-yml", &[("render.yml", RENDER)]),
        (
            "yaml",
            &[("render.yaml", job_kind), ("render-role.yaml", role)],
        ),
        (
            "yml",
            &[("render.yml", job_kind), ("render-role.yml", role)],
        ),
        ("list", &[("all.json", &list)]),
        (
            "folder",
            &[
                ("studio/render.yaml", RENDER),
                ("kustomization.yaml", "resources: [studio]"),
            ],
        ),
    ];
    for (name, files) in cases {
        assert_eq!(read_of(name, files), Ok(1), "{name}");
    }
}

#[test]
fn a_job_kind_without_its_role_is_told() {
    let [job_kind, role] = parts();
    let other = job_kind.replace("name: render\n", "name: other\n");
    let both = format!("{RENDER}---\n{other}");
    let lacks = "JobKind \"render\" has no ClusterRole, in this file or in one with the name render-role.yaml beside it, whose first rule names the group and the resource of the kind";
    let of_others = role.replace("studio.example.com", "acme.io");
    let cases: [(&str, Files<'_>, String); 7] = [
        (
            "no-role",
            &[("render.yaml", job_kind)],
            format!("render.yaml: {lacks}"),
        ),
        (
            "no-role-yml",
            &[("render.yml", job_kind)],
            format!("render.yml: {lacks}"),
        ),
        (
            "of-others",
            &[("render.yaml", job_kind), ("render-role.yaml", &of_others)],
            format!("render.yaml: {lacks}"),
        ),
        (
            "no-job-kind",
            &[("film.yaml", RENDER), ("render-role.yaml", role)],
            "render-role.yaml: there is no JobKind that this role goes with".to_owned(),
        ),
        (
            "two-in-one",
            &[("render.yaml", &both)],
            "render.yaml: must have one JobKind: which role is whose can't be told".to_owned(),
        ),
        (
            "twice",
            &[("a.yaml", RENDER), ("b.yaml", RENDER)],
            "b.yaml: another file has a JobKind of this name or for this kind, too".to_owned(),
        ),
        (
            "broken",
            &[("render.yaml", "a: ]")],
            "read render.yaml: ".to_owned(),
        ),
    ];
    for (name, files, expected) in cases {
        let told = read_of(name, files).unwrap_err();
        assert!(told.starts_with(&expected), "{name}: {told}");
    }
}

#[test]
fn what_is_no_manifest_is_passed_over() {
    let files = [
        ("render.yaml", RENDER),
        ("README.md", "a: ]"),
        (".render.yaml", RENDER),
    ];
    assert_eq!(read_of("others", &files), Ok(1));
    let told = read_of("none", &[("README.md", "")]).unwrap_err();
    assert!(told.ends_with(" has no JobKinds"), "{told}");
}
