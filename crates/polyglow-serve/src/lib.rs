//! Translations over HTTP: by LibreTranslate's interface, which existing clients know, by one of
//! our own for what that lacks, and by a page for people.
//!
//! [`Server`] takes models and limits, and answers until it is stopped. One thread owns the models
//! and translates the lines of waiting requests in batches.

mod access;
mod connections;
mod detect;
mod document;
mod engine;
mod failure;
mod fields;
mod form;
pub mod html;
mod inference;
mod libre;
mod limits;
mod metrics;
mod middleware;
mod numbering;
mod page;
mod pivot;
mod routes;
mod server;
mod stream;
mod translations;
mod worker;

pub use access::Keys;
pub use limits::Limits;
pub use routes::{Model, Reload};
pub use server::{Ended, Server};
