use clap::builder::PossibleValuesParser;

use super::*;

/// A command line with an argument of each sort.
fn plugin() -> Command {
    let namespaces = || {
        [
            Arg::new("namespace").short('n').long("namespace"),
            Arg::new("all").short('A').action(ArgAction::SetTrue),
            Arg::new("context").long("context"),
        ]
    };
    let lift = Command::new("lift")
        .args(namespaces())
        .arg(Arg::new("gate"))
        .arg(Arg::new("object"))
        .arg(
            Arg::new("dry_run")
                .long("dry-run")
                .num_args(0..=1)
                .require_equals(true),
        );
    let list = Command::new("list")
        .args(namespaces())
        .arg(Arg::new("queue").short('q').long("queue"))
        .arg(
            Arg::new("output")
                .short('o')
                .long("output")
                .value_parser(PossibleValuesParser::new(["json", "yaml"])),
        );
    Command::new("kubectl-sluice")
        .subcommand(Command::new("gates").alias("gate").subcommand(lift))
        .subcommand(list)
        .subcommand(
            Command::new("hold")
                .args(namespaces())
                .arg(Arg::new("object")),
        )
}

fn ask(line: &str) -> Option<AskedWords> {
    let typed: Vec<String> = line.split(' ').map(str::to_owned).collect();
    asked(plugin(), &typed)
}

fn known(line: &str) -> Vec<String> {
    let asked = ask(line).unwrap();
    asked.known.into_iter().map(|known| known.value).collect()
}

#[test]
fn what_is_known_is_offered_where_it_may_stand() {
    assert_eq!(known(""), ["gates", "list", "hold", "help"]);
    assert_eq!(known("gate "), ["lift", "help"]);
    assert_eq!(
        known("list -"),
        ["--namespace", "--context", "--queue", "--output", "--help"]
    );
    // What is there already is not offered again.
    assert_eq!(
        known("list -Anblue --queue q --"),
        ["--context", "--output", "--help"]
    );
    for line in ["list -o ", "list -Ao ", "list --output ", "list --output="] {
        assert_eq!(known(line), ["json", "yaml"], "{line}");
    }
    for line in ["list ", "list -o json ", "lost ", "list -- "] {
        assert_eq!(ask(line), None, "{line}");
    }
    assert_eq!(asked(plugin(), &[]), None);
}

#[test]
fn names_are_asked_for_where_they_may_stand() {
    let queues = Some(Names::Objects {
        others: &["clusterqueue", "localqueue"],
        gate: None,
    });
    let held = Some(Names::Objects {
        others: &["pod"],
        gate: Some("acme.io/a".to_owned()),
    });
    let cases = [
        ("list -n ", Some(Names::Namespaces)),
        ("list --namespace=b", Some(Names::Namespaces)),
        ("list -q ", Some(Names::LocalQueues)),
        ("list --context ", Some(Names::Contexts)),
        ("list -o ", None),
        ("hold jo", queues.clone()),
        ("hold -- ", queues),
        ("gates lift ", Some(Names::Gates)),
        ("gate lift acme.io/a job/", held.clone()),
        ("gates lift --dry-run acme.io/a ", held),
    ];
    for (line, expected) in cases {
        assert_eq!(ask(line).unwrap().names, expected, "{line}");
    }
    for line in ["hold job/a ", "gates lift acme.io/a job/a "] {
        assert_eq!(ask(line), None, "{line}");
    }
}

#[test]
fn options_say_where_names_are() {
    let scope = |line: &str| {
        let Scope {
            context, namespace, ..
        } = ask(line).unwrap().scope;
        [context, namespace].map(Option::unwrap_or_default)
    };
    for line in [
        "list --context c -n blue -q ",
        "list --context=c --namespace=blue -q ",
        "list --context c -nblue -q ",
        "list --context c -n=blue --queue=",
        "list --context c -A -n blue -q m",
    ] {
        assert_eq!(scope(line), ["c", "blue"], "{line}");
    }
    assert_eq!(ask("list -n blue --queue=ma").unwrap().current, "ma");
}
