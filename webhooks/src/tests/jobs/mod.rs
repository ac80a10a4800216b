//! Job-like objects: verdicts, what is changed at creation, and what could never run.

mod mutation;
mod refusals;
mod verdicts;
