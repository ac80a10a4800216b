//! Several pod sets or resource groups: for which combination of flavors others are preempted.

use crate::script::check;

#[test]
fn nominal_quota_is_reclaimed_in_the_only_combination_of_flavors_that_it_suffices_for() {
    // To reclaim `default` for the first pod set would leave nothing to the second.
    for fair in ["", "fair", "fair initial", "fair final"] {
        for strategy in ["", "strict"] {
            let script = |then: &str| {
                check(&format!(
                    "{fair}
                     flavor default label=kind:a
                     flavor spot label=kind:b
                     queue q in=c {strategy} reclaim=any default.cpu=2 spot.cpu=2
                     queue o in=c default.cpu=0 spot.cpu=0
                     held a o default.cpu=2
                     held b o spot.cpu=2
                     job j q cpu=2 / cpu=2 select=kind:a
                     job n o cpu=2
                     {then}"
                ));
            };
            script(
                "decide => !b(reclaim) !a(reclaim)
                 decide =>
                 gone a
                 decide =>
                 gone b
                 decide => j
                 flavors j => 0.cpu=spot 1.cpu=default",
            );
            script(
                "decide => !b(reclaim) !a(reclaim)
                 gone b
                 decide =>
                 gone a
                 decide => j
                 flavors j => 0.cpu=spot 1.cpu=default",
            );
        }
    }
}

#[test]
fn nominal_quota_of_one_group_is_reclaimed_where_that_of_another_need_not_be_borrowed() {
    // With `x` it would borrow GPUs, and so reclaim nothing. With `spot` all is nominal quota.
    for strategy in ["", "strict"] {
        check(&format!(
            "queue q in=c {strategy} reclaim=any default.cpu=4 | x.gpu=0 spot.gpu=2
             queue o in=c default.cpu=0 | x.gpu=2
             held a o default.cpu=4
             job j q cpu=4 gpu=1
             decide => !a(reclaim)
             job n o cpu=1
             decide =>
             gone a
             decide => j"
        ));
    }
}

#[test]
fn of_several_combinations_within_nominal_quota_the_one_that_lacks_least_is_reclaimed() {
    let script = |spot: u32, third: u32, then: &str| {
        check(&format!(
            "flavor default label=kind:a
             flavor spot label=kind:b
             flavor x label=kind:c
             queue q in=c reclaim=any default.cpu=4 spot.cpu=4 x.cpu=4
             queue o in=c default.cpu=0 spot.cpu=0 x.cpu=0
             held d o default.cpu=2
             held s o spot.cpu={spot}
             held t o x.cpu={third}
             job j q cpu=4 / cpu=4 select=kind:a
             decide => {then}"
        ));
    };
    script(4, 3, "!t(reclaim) !d(reclaim)");
    script(3, 4, "!s(reclaim) !d(reclaim)");
}

#[test]
fn own_jobs_leave_the_other_combinations() {
    // Of `default` the queue itself uses all, so only `spot` would be nominal quota.
    for rule in ["", "own=lower"] {
        check(&format!(
            "flavor y label=kind:y
             queue q in=c {rule} reclaim=any default.cpu=4 spot.cpu=4 | x.gpu=0 y.gpu=2
             queue o in=c default.cpu=0 spot.cpu=0 | x.gpu=2 y.gpu=0
             held low q default.cpu=4
             held b o spot.cpu=4
             job j q priority=5 cpu=4 gpu=1
             decide => !b(reclaim)"
        ));
    }
}

#[test]
fn a_right_to_preempt_own_jobs_keeps_no_other_combination_from_being_reclaimed() {
    for rule in ["", "own=lower"] {
        check(&format!(
            "flavor y label=kind:y
             queue q in=c {rule} reclaim=any default.cpu=4 | x.memory=8 y.memory=2
             queue o in=c default.cpu=0 | x.memory=10 y.memory=0
             held m q x.memory=8
             held b o default.cpu=4
             job j q priority=5 cpu=4 memory=2
             decide => !b(reclaim)"
        ));
    }
}

#[test]
fn nominal_quota_that_own_jobs_use_is_taken_back_from_them_too() {
    // With `x` it would borrow GPUs, and so reclaim nothing. Of `spot` the queue itself uses a part.
    for strategy in ["", "strict"] {
        check(&format!(
            "queue q in=c {strategy} own=lower reclaim=any default.cpu=4 | x.gpu=2 spot.gpu=4
             queue o in=c default.cpu=0 | x.gpu=1 spot.gpu=0
             held b o priority=9 default.cpu=3
             held low q spot.gpu=2
             job j q priority=5 cpu=2 gpu=3
             decide => !b(reclaim) !low(own)
             gone b
             decide =>
             gone low
             decide => j
             flavors j => 0.cpu=default 0.gpu=spot"
        ));
    }
}

#[test]
fn no_own_job_is_preempted_that_would_return_at_once() {
    // Without `low` the queue would be within its nominal memory, and so it may reclaim CPUs of `spot`. But with `j` in
    // there is memory for `low`, too.
    check(
        "queue q in=c own=newer reclaim=any default.cpu=1 default.memory=3 spot.cpu=4 spot.memory=4
         queue o in=c default.cpu=3 default.memory=4 spot.cpu=1 spot.memory=1
         held b o priority=1 spot.cpu=3 spot.memory=2
         held a o priority=2 default.cpu=2 default.memory=2
         held m q priority=1 default.memory=3
         held low q default.memory=2
         job j q priority=2 memory=3 / cpu=3 memory=2
         decide => !b(reclaim) !m(own)
         gone b
         gone m
         decide => j",
    );
}

/// What is taken when the targets have stopped needs no targets if it would have fitted without.
#[test]
fn nobody_is_evicted_for_one_that_then_gets_what_was_unused_anyway() {
    check(
        "queue q in=c reclaim=any borrow=lower preempt-first default.cpu=1 spot.cpu=4 | default.memory=1
         queue o in=c default.cpu=3
         job b o cpu=4
         rest => b
         job j q priority=1 cpu=2 memory=1
         decide => j
         flavors j => 0.cpu=spot 0.memory=default",
    );
    check(
        "queue q in=c own=lower reclaim=any borrow=lower preempt-first default.cpu=1/3 spot.cpu=4 | default.memory=1
         queue l in=c default.cpu=3
         job a q cpu=2
         job b q cpu=2
         rest => a b
         job j q priority=1 cpu=2 memory=1
         rest => j
         flavors j => 0.cpu=spot 0.memory=default",
    );
    // It prefers to preempt. But while `own` is being evicted, it would start beside it at once in other flavors.
    check(
        "cohort c default.cpu=2 spot.cpu=2
         queue q in=c own=lower next-flavor rather-preempt default.cpu=6 spot.cpu=4
         held a q priority=5 default.cpu=1
         held own q default.cpu=6
         held b q priority=5 spot.cpu=2
         job j q priority=9 cpu=1 / cpu=2
         decide => j
         flavors j => 0.cpu=default 1.cpu=spot",
    );
}

/// Each slot has targets as if those of the slots before it stayed. Once they have stopped, the flavors are assigned anew.
#[test]
fn nobody_is_evicted_for_a_flavor_that_the_other_targets_make_unneeded() {
    for fair in ["", "fair"] {
        check(&format!(
            "{fair}
             queue q in=c own=lower reclaim=any default.cpu=4 | default.memory=4 spot.memory=4
             queue o in=c spot.memory=0
             job low q cpu=4 memory=4
             job b o memory=4
             rest => low b
             job j q priority=1 cpu=4 memory=4
             rest => !low(own) j
             flavors j => 0.cpu=default 0.memory=default
             flavors b => 0.memory=spot"
        ));
        check(&format!(
            "{fair}
             queue q in=c own=lower reclaim=any default.cpu=4 spot.cpu=2
             queue o in=c spot.cpu=0
             job low q cpu=4
             job b o cpu=2
             rest => low b
             job j q priority=1 cpu=2 / cpu=2
             rest => !low(own) j
             flavors j => 0.cpu=default 1.cpu=default"
        ));
    }
}

#[test]
fn own_jobs_are_preempted_in_the_only_combination_of_flavors_that_suffices() {
    // What is best for the first pod set leaves too little to the second one.
    for cohort in ["", "in=c"] {
        for strategy in ["", "strict"] {
            check(&format!(
                "queue q {cohort} {strategy} own=lower default.cpu=3 spot.cpu=2
                 held b q spot.cpu=2
                 job j q priority=9 cpu=2 / cpu=3
                 job n q cpu=3
                 decide => !b(own)
                 gone b
                 decide => j
                 flavors j => 0.cpu=spot 1.cpu=default"
            ));
            check(&format!(
                "queue q {cohort} {strategy} own=lower default.cpu=3 spot.cpu=2
                 held a q default.cpu=3
                 held b q spot.cpu=2
                 job j q priority=9 cpu=2 / cpu=3
                 decide => !b(own) !a(own)"
            ));
        }
    }
    // Where it has to borrow, too.
    check(
        "queue q in=c own=lower default.cpu=3 spot.cpu=1
         queue lender in=c spot.cpu=1
         held b q spot.cpu=2
         job j q priority=9 cpu=2 / cpu=3
         decide => !b(own)",
    );
    // But not such that it may not preempt.
    check(
        "queue q own=lower default.cpu=3 spot.cpu=2
         held b q priority=9 spot.cpu=2
         job j q priority=9 cpu=2 / cpu=3
         decide =>",
    );
}

#[test]
fn nobody_is_evicted_for_what_is_unused_in_another_flavor() {
    check(
        "flavor y label=kind:y
         queue q in=c reclaim=any default.cpu=4 | x.gpu=0 spot.gpu=2 y.gpu=2
         queue o in=c default.cpu=0 | x.gpu=2 spot.gpu=0 y.gpu=0
         held a o default.cpu=4
         held g o spot.gpu=2
         job j q cpu=4 gpu=1
         decide => !a(reclaim)",
    );
}

#[test]
fn who_has_taken_nominal_quota_back_gets_it_though_he_could_borrow() {
    check(
        "queue q in=c reclaim=any default.cpu=4 | x.gpu=0 spot.gpu=2
         queue o in=c reclaim=any default.cpu=0 | x.gpu=2 spot.gpu=0
         held a o default.cpu=4
         held s o spot.gpu=2
         job j q cpu=4 gpu=1
         decide => !s(reclaim) !a(reclaim)
         gone a
         gone s
         decide => j
         flavors j => 0.cpu=default 0.gpu=spot",
    );
}

#[test]
fn nobody_is_preempted_where_another_combination_of_flavors_fits_without() {
    let script = |rules: &str, then: &str| {
        check(&format!(
            "flavor default label=kind:a
             flavor spot label=kind:b
             queue q in=c {rules} default.cpu=4 spot.cpu=2
             held low q default.cpu=2
             job j q priority=5 cpu=2 / cpu=2 select=kind:a
             decide => {then}"
        ));
    };
    script("", "j\nflavors j => 0.cpu=spot 1.cpu=default");
    script("own=lower", "j\nflavors j => 0.cpu=spot 1.cpu=default");
    script(
        "own=lower rather-preempt",
        "j\nflavors j => 0.cpu=spot 1.cpu=default",
    );
    // The first flavor is taken before all others, whoever has to go for it.
    script("own=lower preempt-first", "!low(own)");
}

#[test]
fn a_combination_that_is_borrowed_is_taken_unless_preemption_is_preferred() {
    let script = |rules: &str, then: &str| {
        check(&format!(
            "flavor default label=kind:a
             flavor spot label=kind:b
             queue q in=c own=lower {rules} default.cpu=4 spot.cpu=0
             queue lender in=c default.cpu=0 spot.cpu=2
             held low q default.cpu=2
             job j q priority=5 cpu=2 / cpu=2 select=kind:a
             decide => {then}"
        ));
    };
    script("", "j\nflavors j => 0.cpu=spot 1.cpu=default");
    script("next-flavor rather-preempt", "!low(own)");
}

#[test]
fn whoever_is_nominated_preempts_nobody_where_its_targets_are_enough() {
    let script = |rules: &str| {
        check(&format!(
            "flavor default label=kind:a
             flavor spot label=kind:b
             queue q own=lower {rules} default.cpu=2 spot.cpu=4
             held d q default.cpu=2
             held s1 q priority=9 spot.cpu=1
             held s3 q spot.cpu=2
             job j q priority=5 cpu=2 / cpu=1 select=kind:b
             decide => !d(own)
             finish s1
             decide =>
             gone d
             decide => j
             flavors j => 0.cpu=default 1.cpu=spot"
        ));
    };
    script("");
    script("rather-preempt");
    script("preempt-first");
}

#[test]
fn no_own_job_is_preempted_for_a_flavor_where_another_one_can_be_borrowed() {
    check(
        "flavor d label=kind:a
         flavor z label=kind:b
         flavor s label=kind:c
         queue q in=c own=lower d.cpu=3 z.cpu=0 s.cpu=2
         queue o in=c d.cpu=0 z.cpu=2 s.cpu=0
         held a q d.cpu=1
         held b q s.cpu=1
         job j q priority=9 cpu=2 / cpu=3
         decide => !a(own)",
    );
}

#[test]
fn a_nominee_does_not_borrow_where_nominal_quota_was_taken_back_for_it() {
    check(
        "flavor p label=kind:a
         flavor default label=kind:b
         flavor x label=kind:c
         flavor spot label=kind:d
         queue q in=c preempt-first own=lower reclaim=any p.cpu=4 default.cpu=4 | x.gpu=2 spot.gpu=4
         queue o in=c p.cpu=0 default.cpu=0 | x.gpu=1 spot.gpu=0
         held a o priority=9 p.cpu=4
         held b o priority=9 default.cpu=3
         held low q spot.gpu=2
         job j q priority=5 cpu=2 gpu=3
         decide => !b(reclaim) !low(own)
         gone b
         gone low
         decide => j
         flavors j => 0.cpu=default 0.gpu=spot",
    );
}
