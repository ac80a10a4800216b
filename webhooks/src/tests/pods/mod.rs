//! Pods and the templates that they are made of.

mod long_marks;
mod makers;
mod resize;
mod template_keys;
mod templates;
mod verdicts;
