use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use sluice_engine::{Amount, InactiveReason, NodeAmounts, NodeName, Share, TreeNode, Weight};

use super::quota_tree::QuotaTree;
use super::taken::TakenTree;
use crate::visibility::table::Tabular;

const CORE: i128 = 1_000_000_000;

fn mk_node(name: NodeName, parent: Option<&str>, cores: [i128; 6], pending: usize) -> TreeNode {
    let [nominal, quota, used, borrowed, lendable, lent] =
        cores.map(|cores| Amount::new(cores * CORE));
    let amounts = NodeAmounts {
        nominal,
        quota,
        used,
        borrowed,
        lendable,
        lent,
    };
    TreeNode {
        parent: parent.map(Into::into),
        active: Ok(()),
        amounts: BTreeMap::from([("spot".into(), BTreeMap::from([("cpu".into(), amounts)]))]),
        weight: Weight::from_thousandths(1500),
        share: Some(Share::ZERO),
        pending,
        reserving: 1,
        name,
    }
}

fn queue(name: &str) -> NodeName {
    NodeName::ClusterQueue(name.into())
}

fn cohort(name: &str) -> NodeName {
    NodeName::Cohort(name.into())
}

fn tree(nodes: Vec<(TreeNode, u64)>) -> QuotaTree {
    let of = queue("team-a");
    let at = "2026-03-01T09:30:00Z".parse().unwrap();
    QuotaTree::new(TakenTree { of, nodes }, at)
}

fn shown(nodes: Vec<(TreeNode, u64)>) -> Value {
    serde_json::to_value(tree(nodes)).unwrap()
}

/// The cells of each row below these columns.
fn cells(tree: &QuotaTree, columns: &[&str]) -> Vec<Vec<Value>> {
    let at = |name: &&str| {
        let mut all = QuotaTree::COLUMNS.iter();
        all.position(|column| column.name == *name).unwrap()
    };
    let at: Vec<usize> = columns.iter().map(at).collect();
    let rows = tree.rows(Timestamp::UNIX_EPOCH).into_iter();
    let chosen = rows.map(|row| {
        assert_eq!(row.cells.len(), QuotaTree::COLUMNS.len());
        at.iter().map(|at| row.cells[*at].clone()).collect()
    });
    chosen.collect()
}

#[test]
fn a_table_says_what_is_gated_and_each_share() {
    let top = mk_node(cohort("top"), None, [0; 6], 0);
    let mut alone = mk_node(queue("q"), Some("top"), [4, 4, 6, 2, 4, 0], 5);
    alone.share = None;
    let tree = tree(vec![(top, 0), (alone, 3)]);
    assert_eq!(
        cells(&tree, &["Name", "Gated", "Waiting", "Used", "Share"]),
        [
            [json!("top"), json!(3), json!(5), json!("0"), json!("0")],
            [json!("  q"), json!(3), json!(5), json!("6"), json!("")],
        ]
    );
}

/// The example in the page for users.
fn documented() -> Value {
    let page = include_str!("../../../docs/visibility.md");
    let mut examples = page.split("```json\n").skip(3);
    let example = examples.next().expect("a third example");
    let (example, _) = example.split_once("```").expect("its end");
    serde_json::from_str(example).expect("JSON")
}

#[test]
fn a_tree_is_as_it_is_documented() {
    let mut all = mk_node(cohort("all"), None, [0, 8, 7, 0, 0, 0], 0);
    all.reserving = 0;
    let nodes = vec![
        (
            mk_node(queue("team-b"), Some("all"), [4, 4, 1, 0, 4, 2], 0),
            3,
        ),
        (
            mk_node(queue("team-a"), Some("all"), [4, 4, 6, 2, 4, 0], 5),
            0,
        ),
        (all, 0),
    ];
    let shown = shown(nodes);
    let text = serde_json::to_string_pretty(&shown).unwrap();
    assert_eq!(shown, documented(), "{text}");
}

#[test]
fn nodes_come_after_their_parents_and_those_of_a_cycle_come_too() {
    let node = |name: NodeName, parent| (mk_node(name, parent, [0; 6], 1), 1);
    let mut stuck = node(cohort("x"), Some("y"));
    stuck.0.active = Err(InactiveReason::CohortCycle(vec!["x".into(), "y".into()]));
    let shown = shown(vec![
        node(queue("deep"), Some("low")),
        node(cohort("low"), Some("top")),
        node(cohort("top"), None),
        node(queue("high"), Some("top")),
        stuck,
        node(cohort("y"), Some("x")),
        node(queue("in"), Some("y")),
    ]);
    let nodes = shown["nodes"].as_array().unwrap().iter();
    let found: Vec<_> = nodes
        .map(|node| {
            let name = node["name"].as_str().unwrap();
            let pending = node["pendingWorkloads"].as_u64().unwrap();
            (name, node["depth"].as_u64().unwrap(), pending)
        })
        .collect();
    let expected = [("top", 0, 2), ("low", 1, 1), ("deep", 2, 1), ("high", 1, 1)];
    assert_eq!(found[..4], expected);
    let names: Vec<_> = found[4..].iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, ["x", "y", "in"]);
    assert_eq!(shown["nodes"][4]["reason"], "CohortCycle");
}
