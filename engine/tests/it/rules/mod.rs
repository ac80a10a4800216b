//! Who is admitted, when and with which flavor: small scripts, by rule. Preemption is in `preemption`.

mod choice_of_flavor;
mod deleted_queues;
mod events;
mod never_fits;
mod order;
mod sharing;
mod strict_head;
mod time;
mod undeclared;
mod usage;
