//! The name formats of apimachinery that Sluice checks by itself, with apimachinery's own texts, so
//! that a user reads the same sentence whoever refuses a name.

use crate::field::problem::Problem;

/// Longest RFC 1123 subdomain in bytes.
const SUBDOMAIN_BYTES_MAX: usize = 253;

/// Longest name part of a qualified name (a label key, a scheduling gate) in bytes.
const NAME_PART_BYTES_MAX: usize = 63;

/// What apimachinery says of a bad subdomain.
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
     alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
     (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Longest RFC 1123 label in bytes.
const LABEL_BYTES_MAX: usize = 63;

/// What apimachinery says of a bad label.
const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
     characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
     '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// What apimachinery says of a bad path.
const PATH_RULE: &str =
    "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";

/// The characters that a path may hold beside letters and digits.
const PATH_PUNCTUATION: &[u8] = b"/-._~%!$&'()*+,;=:";

/// What is wrong with `value` as an RFC 1123 subdomain: the name of most objects.
pub fn subdomain(value: &str, field: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if SUBDOMAIN_BYTES_MAX < value.len() {
        let detail = format!("must be no more than {SUBDOMAIN_BYTES_MAX} bytes");
        problems.push(Problem::invalid(field, value, detail));
    }
    if !value.split('.').all(is_label) {
        problems.push(Problem::invalid(field, value, SUBDOMAIN_RULE));
    }
    problems
}

/// What is wrong with `value` as an RFC 1123 label: the name of a pod set or namespace.
pub fn label(value: &str, field: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if LABEL_BYTES_MAX < value.len() {
        let detail = format!("must be no more than {LABEL_BYTES_MAX} bytes");
        problems.push(Problem::invalid(field, value, detail));
    }
    if !is_label(value) {
        problems.push(Problem::invalid(field, value, LABEL_RULE));
    }
    problems
}

/// What is wrong with `value` as a domain-prefixed path such as `acme.io/foo`; the rule of
/// `Job.spec.managedBy`, its length apart.
pub fn domain_prefixed_path(value: &str, field: &str) -> Vec<Problem> {
    let parts = value
        .split_once('/')
        .filter(|(host, path)| !host.is_empty() && !path.is_empty());
    let Some((host, path)) = parts else {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return vec![Problem::invalid(field, value, detail)];
    };
    let mut problems = subdomain(host, field);
    if !path
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || PATH_PUNCTUATION.contains(&b))
    {
        problems.push(Problem::invalid(field, path, PATH_RULE));
    }
    problems
}

/// What is wrong with `value` as the key of an annotation.
pub fn annotation_key(value: &str, field: &str) -> Option<Problem> {
    let rule = "must be the key of an annotation (such as \"sluice.dev/min-parallelism\")";
    (!is_qualified_name(value)).then(|| Problem::invalid(field, value, rule))
}

/// Whether `value` is a qualified name, as the keys of labels and annotations and the names of extended
/// resources are: a name, or a subdomain, a slash and a name.
pub fn is_qualified_name(value: &str) -> bool {
    let (prefix, name) = match value.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, value),
    };
    is_qualified_name_part(name) && prefix.is_none_or(|prefix| subdomain(prefix, "").is_empty())
}

/// Why `value` can't be the name of a user as the API server knows him; none if it can.
///
/// # Errors
/// The rule that it breaks.
pub(crate) fn user(value: &str) -> Result<(), &'static str> {
    const RULE: &str = "must be the name of one user (such as \
         \"system:serviceaccount:jobset-system:jobset-controller-manager\")";
    let is_plain = !value.is_empty()
        && value
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"*'\"\\".contains(&b));
    let is_account = match value.strip_prefix("system:serviceaccount:") {
        None => true,
        Some(account) => account
            .split_once(':')
            .is_some_and(|(namespace, name)| is_label(namespace) && name.split('.').all(is_label)),
    };
    if is_plain && is_account {
        Ok(())
    } else {
        Err(RULE)
    }
}

/// Whether `text` can stand behind the slash of a qualified name.
pub(crate) fn is_qualified_name_part(text: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    text.len() <= NAME_PART_BYTES_MAX
        && edge(text.bytes().next())
        && edge(text.bytes().last())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// Whether `text` is one dot-free part of a subdomain.
fn is_label(text: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(is_lower_alphanumeric);
    edge(text.bytes().next())
        && edge(text.bytes().last())
        && text.bytes().all(|b| is_lower_alphanumeric(b) || b == b'-')
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}
