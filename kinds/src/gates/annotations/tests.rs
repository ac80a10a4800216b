//! Every row of the gate rules, by name, with the whole message; and what holds for any value.

use super::*;
use proptest::prelude::*;
use rstest::rstest;

const SINGLE: &str = SCHEDULING_GATED_BY;
const LIST: &str = ADMISSION_GATED_BY;

const AT_SINGLE: &str = "metadata.annotations[kueue.x-k8s.io/scheduling-gated-by]";
const AT_LIST: &str = "metadata.annotations[kueue.x-k8s.io/admission-gated-by]";
const PREFIXED: &str = "must be a domain-prefixed path (such as \"acme.io/foo\")";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
     characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
     'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const PATH: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";

fn mk(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

fn texts(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

#[rstest]
#[case::no_annotation(&[], &[])]
#[case::foreign_annotation(&[("acme.io/gate", "mygate")], &[])]
#[case::one(&[(SINGLE, "acme.io/foo")], &["acme.io/foo"])]
#[case::list(&[(LIST, "b.io/x,a.io/y")], &["a.io/y", "b.io/x"])]
#[case::list_spaced(&[(LIST, " b.io/x ,\ta.io/y\n")], &["a.io/y", "b.io/x"])]
#[case::union(&[(SINGLE, "c.io/z"), (LIST, "a.io/y")], &["a.io/y", "c.io/z"])]
#[case::union_overlap(&[(SINGLE, "a.io/y"), (LIST, "a.io/y")], &["a.io/y"])]
#[case::deep_path(&[(SINGLE, "acme.io/foo/bar~baz:1")], &["acme.io/foo/bar~baz:1"])]
#[case::percent_encoded(&[(SINGLE, "acme.io/a%2fb")], &["acme.io/a%2fb"])]
#[case::bare_host(&[(SINGLE, "localhost/x")], &["localhost/x"])]
#[case::longest(
    &[(SINGLE, "acme.io/5678901234567890123456789012345678901234567890123456789")],
    &["acme.io/5678901234567890123456789012345678901234567890123456789"]
)]
fn reads(#[case] annotations: &[(&str, &str)], #[case] expected: &[&str]) {
    let annotations = mk(annotations);
    let state = read(&annotations);
    assert_eq!(
        state.names().map(Gate::as_str).collect::<Vec<_>>(),
        expected
    );
    assert_eq!(state.is_held(), !expected.is_empty());
    assert_eq!(check_create(&annotations), vec![]);
}

#[rstest]
#[case::empty("", AT_SINGLE, NAMES_NO_GATE)]
#[case::blank(" \t", AT_SINGLE, NAMES_NO_GATE)]
#[case::no_slash("mygate", AT_SINGLE, PREFIXED)]
#[case::leading_slash("/foo", AT_SINGLE, PREFIXED)]
#[case::trailing_slash("acme.io/", AT_SINGLE, PREFIXED)]
#[case::only_slashes("//", AT_SINGLE, PREFIXED)]
fn refuses_one_name(#[case] value: &str, #[case] at: &str, #[case] rule: &str) {
    let problems = check_create(&mk(&[(SINGLE, value)]));
    assert_eq!(
        texts(&problems),
        vec![format!("{at}: Invalid value: {value:?}: {rule}")]
    );
    assert!(read(&mk(&[(SINGLE, value)])).is_held(), "fails closed");
}

#[rstest]
#[case::upper_case("Acme.io/x", "Acme.io", SUBDOMAIN)]
#[case::underscore("ac_me.io/x", "ac_me.io", SUBDOMAIN)]
#[case::two_dots("acme..io/x", "acme..io", SUBDOMAIN)]
#[case::dots_only("../x", "..", SUBDOMAIN)]
#[case::idn("bücher.de/x", "bücher.de", SUBDOMAIN)]
#[case::dash_at_end("acme-/x", "acme-", SUBDOMAIN)]
#[case::space_before(" acme.io/x", " acme.io", SUBDOMAIN)]
#[case::space_in_path("acme.io/a b", "a b", PATH)]
#[case::newline("acme.io/x\n", "x\n", PATH)]
#[case::nul("acme.io/\0", "\0", PATH)]
#[case::utf8_path("acme.io/ü", "ü", PATH)]
#[case::question_mark("acme.io/x?y", "x?y", PATH)]
fn refuses_part(#[case] value: &str, #[case] part: &str, #[case] rule: &str) {
    let problems = check_create(&mk(&[(SINGLE, value)]));
    assert_eq!(
        texts(&problems),
        vec![format!("{AT_SINGLE}: Invalid value: {part:?}: {rule}")]
    );
}

#[test]
fn one_gate_is_not_a_list() {
    assert_eq!(
        texts(&check_create(&mk(&[(SINGLE, "a.io/x,b.io/y")]))),
        vec![format!(
            "{AT_SINGLE}: Invalid value: \"a.io/x,b.io/y\": {ONE_GATE_ONLY}"
        )]
    );
}

#[rstest]
#[case::only_comma(",", &[NAMES_NO_GATE, NAMES_NO_GATE])]
#[case::trailing_comma("a.io/x,", &[NAMES_NO_GATE])]
#[case::hole("a.io/x,,b.io/y", &[NAMES_NO_GATE])]
fn refuses_holes(#[case] value: &str, #[case] rules: &[&str]) {
    let expected: Vec<_> = rules
        .iter()
        .map(|rule| format!("{AT_LIST}: Invalid value: \"\": {rule}"))
        .collect();
    assert_eq!(texts(&check_create(&mk(&[(LIST, value)]))), expected);
}

#[rstest]
#[case::duplicate("a.io/x,a.io/x")]
#[case::duplicate_after_trimming(" a.io/x ,a.io/x")]
fn refuses_duplicates(#[case] value: &str) {
    assert_eq!(
        texts(&check_create(&mk(&[(LIST, value)]))),
        vec![format!("{AT_LIST}: Duplicate value: \"a.io/x\"")]
    );
}

#[test]
fn sizes_are_bounded() {
    let of = |count: usize| {
        (0..count)
            .map(|i| format!("a.io/{i}"))
            .collect::<Vec<_>>()
            .join(",")
    };
    assert_eq!(check_create(&mk(&[(LIST, &of(16))])), vec![]);
    assert_eq!(
        texts(&check_create(&mk(&[(LIST, &of(17))]))),
        vec![format!(
            "{AT_LIST}: Too many: 17: must have at most 16 items"
        )]
    );
    assert_eq!(
        texts(&check_create(&mk(&[(LIST, &of(4000))]))),
        vec![format!(
            "{AT_LIST}: Too long: may not be more than 1024 bytes"
        )]
    );
    assert_eq!(
        texts(&check_create(&mk(&[(
            SINGLE,
            &format!("acme.io/{}", "x".repeat(56))
        )]))),
        vec![format!(
            "{AT_SINGLE}: Too long: may not be more than 63 bytes"
        )]
    );
}

#[test]
fn all_problems_are_told_at_once() {
    let problems = check_create(&mk(&[(SINGLE, "one"), (LIST, "two,a.io/x,A.io/x")]));
    assert_eq!(
        texts(&problems),
        vec![
            format!("{AT_SINGLE}: Invalid value: \"one\": {PREFIXED}"),
            format!("{AT_LIST}: Invalid value: \"two\": {PREFIXED}"),
            format!("{AT_LIST}: Invalid value: \"A.io\": {SUBDOMAIN}"),
        ]
    );
}

#[rstest]
#[case::nothing(&[], &[])]
#[case::unchanged(&[(LIST, "a.io/x")], &[(LIST, "a.io/x")])]
#[case::remove_one(&[(SINGLE, "a.io/x")], &[])]
#[case::remove_list(&[(LIST, "a.io/x,b.io/y")], &[])]
#[case::remove_one_of_two_keys(&[(SINGLE, "a.io/x"), (LIST, "b.io/y")], &[(LIST, "b.io/y")])]
#[case::shrink(&[(LIST, "a.io/x,b.io/y")], &[(LIST, "b.io/y")])]
#[case::reorder(&[(LIST, "a.io/x,b.io/y")], &[(LIST, "b.io/y,a.io/x")])]
#[case::respace(&[(LIST, "a.io/x,b.io/y")], &[(LIST, " a.io/x , b.io/y ")])]
#[case::stored_bad_value_blocks_nothing(&[(SINGLE, "mygate")], &[(SINGLE, "mygate")])]
#[case::stored_bad_value_removed(&[(SINGLE, "mygate")], &[])]
#[case::stored_empty_value_removed(&[(SINGLE, "")], &[])]
#[case::stored_hole_mended(&[(LIST, "a.io/x,,b.io/y")], &[(LIST, "a.io/x,b.io/y")])]
#[case::stored_duplicate_mended(&[(LIST, "a.io/x,a.io/x")], &[(LIST, "a.io/x")])]
#[case::stored_bad_element_left(&[(LIST, "a.io/x,mygate")], &[(LIST, "mygate")])]
#[case::stored_list_under_single_mended(&[(SINGLE, "a.io/x,b.io/y")], &[(SINGLE, "a.io/x")])]
#[case::foreign_annotation_added(&[], &[("acme.io/gate", "x")])]
fn allows_edit(#[case] old: &[(&str, &str)], #[case] new: &[(&str, &str)]) {
    assert_eq!(check_update(&mk(old), &mk(new)), vec![]);
}

#[rstest]
#[case::add(&[], &[(SINGLE, "a.io/x")], AT_SINGLE)]
#[case::add_list(&[], &[(LIST, "a.io/x")], AT_LIST)]
#[case::add_empty(&[], &[(SINGLE, "")], AT_SINGLE)]
#[case::readd_after_removal(&[], &[(SINGLE, "a.io/x")], AT_SINGLE)]
#[case::change(&[(SINGLE, "a.io/x")], &[(SINGLE, "a.io/y")], AT_SINGLE)]
#[case::swap_one(&[(LIST, "a.io/x,b.io/y")], &[(LIST, "a.io/x,c.io/z")], AT_LIST)]
#[case::grow(&[(LIST, "a.io/x")], &[(LIST, "a.io/x,b.io/y")], AT_LIST)]
#[case::grow_one_to_list(&[(SINGLE, "a.io/x")], &[(SINGLE, "a.io/x,b.io/y")], AT_SINGLE)]
#[case::empty_to_gate(&[(SINGLE, "")], &[(SINGLE, "a.io/x")], AT_SINGLE)]
#[case::bad_to_other_bad(&[(SINGLE, "mygate")], &[(SINGLE, "yourgate")], AT_SINGLE)]
#[case::moved_between_keys(&[(SINGLE, "a.io/x")], &[(LIST, "a.io/x")], AT_LIST)]
#[case::second_key_added(&[(SINGLE, "a.io/x")], &[(SINGLE, "a.io/x"), (LIST, "a.io/x")], AT_LIST)]
#[case::space_into_one(&[(SINGLE, "a.io/x")], &[(SINGLE, " a.io/x")], AT_SINGLE)]
fn refuses_edit(#[case] old: &[(&str, &str)], #[case] new: &[(&str, &str)], #[case] at: &str) {
    assert_eq!(
        texts(&check_update(&mk(old), &mk(new))),
        vec![format!(
            "{at}: Forbidden: may only be set at creation and removed later"
        )]
    );
}

#[rstest]
#[case::emptied("a.io/x", "", "Invalid value: \"\": ", NAMES_NO_GATE)]
#[case::blanked("a.io/x", " ", "Invalid value: \" \": ", NAMES_NO_GATE)]
#[case::hole(
    "a.io/x,b.io/y",
    "a.io/x,",
    "Invalid value: \"a.io/x,\": ",
    NAMES_NO_GATE
)]
#[case::doubled("a.io/x", "a.io/x,a.io/x", "Duplicate value: \"a.io/x\"", "")]
fn refuses_new_faults(
    #[case] old: &str,
    #[case] new: &str,
    #[case] what: &str,
    #[case] rule: &str,
) {
    assert_eq!(
        texts(&check_update(&mk(&[(LIST, old)]), &mk(&[(LIST, new)]))),
        vec![format!("{AT_LIST}: {what}{rule}")]
    );
}

#[test]
fn padding_is_bounded() {
    let padded = format!("a.io/x{}", " ".repeat(VALUE_BYTES_MAX));
    assert_eq!(
        texts(&check_update(
            &mk(&[(LIST, "a.io/x")]),
            &mk(&[(LIST, &padded)])
        )),
        vec![format!(
            "{AT_LIST}: Too long: may not be more than 1024 bytes"
        )]
    );
    assert_eq!(
        check_update(&mk(&[(LIST, &padded)]), &mk(&[(LIST, "a.io/x")])),
        vec![]
    );
}

fn gate_names() -> impl Strategy<Value = BTreeSet<String>> {
    proptest::collection::btree_set("[a-z]{1,5}\\.io/[a-z]{1,5}", 1..8)
}

fn join(names: &[&String]) -> String {
    names
        .iter()
        .map(|name| name.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

proptest! {
    #[test]
    fn any_string_is_judged_alike_everywhere(value in any::<String>(), other in any::<String>()) {
        for key in GATE_ANNOTATIONS {
            let (old, new) = (mk(&[(key, &value)]), mk(&[(key, &other)]));
            let is_bad = !check_create(&old).is_empty();
            prop_assert_eq!(matches!(read(&old), GateState::Invalid(_)), is_bad);
            prop_assert!(read(&old).is_held(), "a gate annotation always holds");
            prop_assert_eq!(check_update(&old, &old), vec![]);
            prop_assert_eq!(check_update(&old, &mk(&[])), vec![]);
            prop_assert!(!check_update(&mk(&[]), &new).is_empty());
            let _ = check_update(&old, &new);
        }
    }

    #[test]
    fn a_shrink_is_always_accepted(names in gate_names(), keep in any::<u8>()) {
        let all: Vec<_> = names.iter().collect();
        let left: Vec<_> =
            names.iter().enumerate().filter(|(i, _)| keep >> i & 1 == 1).map(|(_, n)| n).collect();
        let new = if left.is_empty() { mk(&[]) } else { mk(&[(LIST, &join(&left))]) };
        prop_assert_eq!(check_update(&mk(&[(LIST, &join(&all))]), &new), vec![]);
        prop_assert_eq!(check_create(&new), vec![]);
    }

    #[test]
    fn an_added_name_is_always_refused(names in gate_names(), added in "[a-z]{1,5}\\.org/x") {
        let all: Vec<_> = names.iter().collect();
        let more: Vec<_> = names.iter().chain([&added]).collect();
        for old in [mk(&[]), mk(&[(LIST, &join(&all))])] {
            prop_assert!(!check_update(&old, &mk(&[(LIST, &join(&more))])).is_empty());
        }
    }

    #[test]
    fn an_accepted_edit_brings_no_name_in(old in "[ab/,. ]{0,12}", new in "[ab/,. ]{0,12}") {
        let (was, is) = (mk(&[(LIST, &old)]), mk(&[(LIST, &new)]));
        if check_update(&was, &is).is_empty() {
            let names = |text: &str| text.split(',').map(|n| n.trim().to_owned()).collect::<BTreeSet<_>>();
            prop_assert!(names(&new).is_subset(&names(&old)));
            if check_create(&was).is_empty() {
                prop_assert_eq!(check_create(&is), vec![], "good never turns bad");
            }
        }
    }
}

#[rstest]
#[case::valid(&[(SINGLE, "c.io/z"), (LIST, "a.io/y")], &["a.io/y", "c.io/z"])]
#[case::beside_a_bad_one(&[(LIST, "acme.io/budget, BAD")], &["acme.io/budget"])]
#[case::a_list_where_one_belongs(&[(SINGLE, " a.io/x ,b.io/y")], &["a.io/x", "b.io/y"])]
#[case::twice(&[(LIST, "a.io/x,a.io/x,")], &["a.io/x"])]
#[case::nothing(&[(SINGLE, ""), (LIST, ",BAD,a/")], &[])]
fn is_named(#[case] annotations: &[(&str, &str)], #[case] expected: &[&str]) {
    let names = named(&mk(annotations));
    let names: Vec<_> = names.iter().map(Gate::as_str).collect();
    assert_eq!(names, expected);
}

#[test]
fn a_value_that_is_too_long_names_gates_too() {
    let value = "a.io/x,".repeat(10_000);
    assert!(matches!(
        read(&mk(&[(LIST, &value)])),
        GateState::Invalid(_)
    ));
    assert_eq!(named(&mk(&[(LIST, &value)])).len(), 1);
}
