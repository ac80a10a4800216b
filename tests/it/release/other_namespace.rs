//! An overlay of kustomize with nothing but `namespace:`, as docs/without-webhook.md says: the policies leave the namespace
//! alone that Sluice is in then, as those of the chart do.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::Value;

use super::charts::{equal, rendered};
use super::{Folder, ROOT, kustomized};

#[test]
fn policies_leave_the_namespace_alone_that_an_overlay_sets() -> Result<()> {
    let folder = Folder::new("other-namespace")?;
    let overlay = folder.path().canonicalize()?;
    // Kustomize takes no absolute path.
    let up = "../".repeat(overlay.components().count().saturating_sub(1));
    let root = Path::new(ROOT).canonicalize()?;
    let base = format!("{up}{}", root.display().to_string().trim_start_matches('/'));
    let text = format!("namespace: elsewhere\nresources: [{base}/config/without-webhook]\n");
    std::fs::write(overlay.join("kustomization.yaml"), text)?;
    let mut made = kustomized(&overlay.to_string_lossy())?;
    let text = serde_json::to_string(&made)?;
    ensure!(!text.contains("sluice-system"), "{text}");
    let rendered = rendered(&["--namespace=elsewhere", "--set=variant=policies"])?;
    let no_namespace = |object: &&Value| object["metadata"]["namespace"].is_null();
    let kinds = rendered.iter().filter(no_namespace);
    let kinds: BTreeSet<String> = kinds.map(|object| object["kind"].to_string()).collect();
    // Kustomize gives a namespace to all kinds that it does not know. The API server drops it.
    for object in &mut made {
        if kinds.contains(&object["kind"].to_string()) {
            let metadata = object["metadata"].as_object_mut();
            metadata.and_then(|metadata| metadata.remove("namespace"));
        }
    }
    equal(rendered, made);
    Ok(())
}
