//! Who is preempted, and what comes of that: small scripts. The rules of quota and order are in `rules`.

mod combinations;
mod nominated;
mod reclaim;
mod rounds;
mod targets;
mod within_nominal;
