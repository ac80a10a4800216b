//! Which flavor is taken when some can be borrowed and others only had when somebody goes, and how
//! many pods are admitted when there is no room for all.

use crate::script::check;

#[test]
fn the_first_flavor_that_may_stop_the_search_does() {
    // In `default` somebody would have to go, in `spot` it fits by borrowing.
    let script = |rules: &str, expected: &str, flavor: &str| {
        check(&format!(
            "queue q in=c own=lower {rules} default.cpu=2 spot.cpu=0
             queue lender in=c default.cpu=0 spot.cpu=2
             held low q default.cpu=2
             job high q priority=9 cpu=2
             decide => {expected}
             gone low
             decide => {}
             flavors high => 0.cpu={flavor}",
            if expected == "high" { "" } else { "high" }
        ));
    };
    script("", "high", "spot");
    script("next-flavor", "high", "spot");
    script("preempt-first", "!low(own)", "default");
    script("rather-preempt", "high", "spot");
    script("next-flavor rather-preempt", "!low(own)", "default");
}

#[test]
fn a_later_flavor_with_room_spares_everybody() {
    check(
        "queue q own=lower default.cpu=2 spot.cpu=2
         held low q default.cpu=2
         job high q priority=9 cpu=2
         decide => high
         flavors high => 0.cpu=spot",
    );
}

#[test]
fn as_many_pods_as_fit_are_admitted_if_so_many_will_do() {
    check(
        "queue q default.cpu=7
         job a q pods=5 min=2 cpu=2
         decide => ax3
         use q => default.cpu=6+0",
    );
    check(
        "queue q default.cpu=3
         job a q pods=5 min=2 cpu=2
         decide =>",
    );
    // Two sets are cut down evenly.
    check(
        "queue q default.cpu=12
         job a q pods=8 min=4 cpu=1 / pods=8 min=6 cpu=1
         decide => ax5+7",
    );
    // Nobody has to go for a part.
    check(
        "queue q own=lower default.cpu=4
         held low q default.cpu=2
         job high q priority=9 pods=5 min=1 cpu=1
         decide => highx2",
    );
    // But for all, somebody does.
    check(
        "queue q own=lower default.cpu=4
         held low q default.cpu=2
         job high q priority=9 pods=4 min=1 cpu=1
         decide => !low(own)",
    );
}
