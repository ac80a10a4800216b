//! Certificates: issue, check, renew, overlap.

use jiff::{SignedDuration, Timestamp};

use crate::certificates::*;

fn now() -> Timestamp {
    "2026-05-01T00:00:00Z".parse().unwrap()
}

fn days(count: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * count)
}

fn mk_serving(ca: &Pair) -> Pair {
    let names = service_dns_names("sluice-webhook", "sluice-system");
    issue_serving(ca, &names, &["127.0.0.1".parse().unwrap()], now()).unwrap()
}

#[test]
fn validity_spans() {
    let ca = issue_ca(now()).unwrap();
    let serving = mk_serving(&ca);
    let hour = SignedDuration::from_hours(1);
    assert_eq!(
        validity(&ca.certificate_pem).unwrap(),
        Validity {
            not_before: now() - hour,
            not_after: now() + days(90)
        }
    );
    assert_eq!(
        validity(&serving.certificate_pem).unwrap(),
        Validity {
            not_before: now() - hour,
            not_after: now() + days(90)
        }
    );
}

#[test]
fn renewal_is_due_with_a_third_left() {
    let serving = mk_serving(&issue_ca(now()).unwrap()).certificate_pem;
    assert!(!needs_renewal(&serving, now()));
    assert!(!needs_renewal(&serving, now() + days(59)));
    assert!(needs_renewal(&serving, now() + days(61)));
    assert!(needs_renewal(&serving, now() + days(1000)));
    assert!(
        needs_renewal(&serving, now() - days(1)),
        "the clock was wrong"
    );
    assert!(needs_renewal("", now()));
    assert!(needs_renewal(
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
        now()
    ));
}

#[test]
fn nobody_is_waited_for_in_the_last_tenth() {
    let serving = mk_serving(&issue_ca(now()).unwrap()).certificate_pem;
    for (age, expected) in [
        (-1, false),
        (0, false),
        (80, false),
        (82, true),
        (1000, true),
    ] {
        let near = nears_its_end(&serving, now() + days(age));
        assert_eq!(near, expected, "after {age} days");
    }
    assert!(!nears_its_end("", now()), "there is none");
}

#[test]
fn key_and_certificate_must_match() {
    let ca = issue_ca(now()).unwrap();
    let (one, other) = (mk_serving(&ca), mk_serving(&ca));
    assert!(certified_key(&one).is_ok());
    let mixed = Pair {
        key_pem: other.key_pem,
        ..one.clone()
    };
    assert_eq!(
        certified_key(&mixed).unwrap_err().to_string(),
        "the certificate can't be served: keys may not be consistent: KeyMismatch"
    );
    let without = Pair {
        certificate_pem: String::new(),
        ..one
    };
    assert_eq!(
        certified_key(&without).unwrap_err().to_string(),
        "there is no certificate in the PEM text"
    );
}

#[test]
fn two_cas_overlap_until_the_old_one_ends() {
    let old = issue_ca(now()).unwrap().certificate_pem;
    let new = issue_ca(now() + days(60)).unwrap().certificate_pem;
    let first = merge_bundle(&old, "", now());
    assert_eq!(first.matches("BEGIN").count(), 1);
    let both = merge_bundle(&new, &first, now() + days(60));
    assert_eq!(both.matches("BEGIN").count(), 2);
    assert!(both.starts_with(new.trim()));
    assert!(both.contains(old.trim()));
    assert_eq!(
        merge_bundle(&new, &both, now() + days(60)),
        both,
        "merging again changes nothing"
    );
    let after = merge_bundle(&new, &both, now() + days(100));
    assert_eq!(after.trim(), new.trim());
    assert_eq!(merge_bundle(&new, "garbage", now()).trim(), new.trim());
}

#[test]
fn hostile_clocks_do_not_panic() {
    for time in [Timestamp::MIN, Timestamp::MAX, Timestamp::UNIX_EPOCH] {
        let ca = issue_ca(time).unwrap();
        let _ = validity(&ca.certificate_pem);
        let _ = needs_renewal(&ca.certificate_pem, Timestamp::MIN);
        let _ = needs_renewal(&ca.certificate_pem, Timestamp::MAX);
        let _ = nears_its_end(&ca.certificate_pem, Timestamp::MAX);
    }
}

#[test]
fn keys_are_not_printed() {
    let ca = issue_ca(now()).unwrap();
    assert!(!format!("{ca:?}").contains("PRIVATE"));
}

#[test]
fn bad_names_are_refused() {
    let error = issue_serving(
        &issue_ca(now()).unwrap(),
        &["bücher".to_owned()],
        &[],
        now(),
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        "\"bücher\" is not a DNS name"
    );
}
