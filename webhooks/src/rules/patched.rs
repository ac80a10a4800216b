//! An object with Sluice's own changes in it: the rules judge it as it will be stored.

use json_patch::PatchOperation;
use serde_json::Value;

use crate::invariants::violated;

/// `object` as `operations` change it, which were made for it. If they don't fit all the same, it stays as it is: the
/// API server can't apply them either, and refuses the request.
pub(crate) fn patched(object: &Value, operations: &[PatchOperation]) -> Value {
    let mut object = object.clone();
    if json_patch::patch(&mut object, operations).is_err() {
        violated("an object can be changed by what was made for it");
    }
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn operations(path: &str) -> Vec<PatchOperation> {
        serde_json::from_value(json!([{"op": "add", "path": path, "value": 1}])).unwrap()
    }

    #[test]
    fn operations_are_applied() {
        let object = json!({"a": {}});
        assert_eq!(
            patched(&object, &operations("/a/b")),
            json!({"a": {"b": 1}})
        );
    }

    #[test]
    #[cfg_attr(
        debug_assertions,
        should_panic(expected = "violated: an object can be changed")
    )]
    fn operations_that_do_not_fit_are_counted() {
        let before = crate::invariants::found();
        let object = json!({"a": {}});
        assert_eq!(patched(&object, &operations("/b/c")), object);
        assert!(before < crate::invariants::found());
    }
}
