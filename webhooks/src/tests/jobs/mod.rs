//! Job-like objects: verdicts, what is changed at creation, and what could never run.

mod metadata_alone;
mod mutation;
mod refusals;
mod verdicts;
