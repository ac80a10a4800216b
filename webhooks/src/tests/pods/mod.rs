//! Pods and the templates that they are made of.

mod makers;
mod template_keys;
mod templates;
mod verdicts;
