//! Faults that Sluice had or could have: which text of which file becomes which, and which tests have to find
//! that. A fault that no test finds says that a test is missing. `tests/planted.rs` plants them, one after the
//! other, in a copy of the repository.
//!
//! A folder's files are tables by subject. What is found is in `docs/faults.md`.

mod decisions;
mod kinds;
mod leaders;
mod limits;
mod simulation;
mod stuck;
mod token;
mod unqueued;

/// A fault.
#[derive(Debug)]
pub struct Mutant {
    /// What it does, in a few words.
    pub what: &'static str,
    /// The file that it is in.
    pub file: &'static str,
    /// What stands there once.
    pub from: &'static str,
    /// What is put in its place.
    pub to: &'static str,
    /// The tests that have to fail then.
    pub found_by: FoundBy,
}

/// Tests that find a fault; each but the first names a test function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FoundBy {
    /// One of a thousand seeds of the simulation.
    Seeds,
    /// A test of the engine: a script or random histories.
    Engine(&'static str),
    /// A unit test of a package, which lives in this folder.
    Unit(&'static str, &'static str),
    /// A test of the shipped JobKinds.
    Shipped(&'static str),
    /// A black-box test on a control plane.
    Cluster(&'static str),
    /// A fault round.
    Round(&'static str),
}

impl Mutant {
    /// The text with the fault in it; none if its place is not there once.
    pub fn plant(&self, text: &str) -> Option<String> {
        let is_there_once = text.matches(self.from).count() == 1;
        is_there_once.then(|| text.replacen(self.from, self.to, 1))
    }
}

/// All of them, by subject.
pub fn all() -> impl Iterator<Item = &'static Mutant> {
    let tables = [
        decisions::MUTANTS,
        unqueued::MUTANTS,
        kinds::MUTANTS,
        limits::MUTANTS,
        token::MUTANTS,
        stuck::MUTANTS,
        leaders::MUTANTS,
        simulation::MUTANTS,
    ];
    tables.into_iter().flatten()
}

const fn mutant(
    what: &'static str,
    file: &'static str,
    (from, to): (&'static str, &'static str),
    found_by: FoundBy,
) -> Mutant {
    Mutant {
        what,
        file,
        from,
        to,
        found_by,
    }
}
