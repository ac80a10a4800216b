//! The OpenAPI documents of the API: what each field of the answers means, from the types that they are written from.
//!
//! Must not know how anything is answered.

pub mod documents;
mod schema;
