//! Pods and the templates that they are made of.

mod long_marks;
mod makers;
mod template_keys;
mod templates;
mod verdicts;
