//! What the page asks for. Each answer is made of what the commands of the plugin list and show, with the caller's
//! rights; what the caller may not see is left out, and told as a problem.
//!
//! | file | what it answers |
//! |---|---|
//! | `viewer` | who asks, of which cluster; lists that fall back to one namespace |
//! | `queues` | the tree of cohorts and ClusterQueues, and the LocalQueues |
//! | `waiting` | one queue: who waits in it, in order, and who holds its quota |
//! | `turns` | whose turn it is to have that estimated |
//! | `starts` | when those who wait in a queue will start |
//! | `jobs` | all jobs |
//! | `timeline` | the life of one job, from its object, its Workload and its events: pure |
//! | `job` | one job, explained, with its life |
//! | `gates`, `flavors` | gates and what they hold; flavors and who has quota in them |
//!
//! Must not know HTTP.

mod flavors;
mod gates;
mod job;
mod jobs;
mod queues;
mod starts;
mod timeline;
mod turns;
mod viewer;
mod waiting;

pub use self::turns::Turns;
pub use self::viewer::{Answer, Session, Viewer};
pub use self::waiting::QueueName;
