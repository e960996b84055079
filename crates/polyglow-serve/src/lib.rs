//! Translations over HTTP: by LibreTranslate's interface, which existing clients know, by one of
//! our own for what that cannot say, and by a page for people.
//!
//! [`Server`] takes models and limits, and answers until it is told to stop. One thread owns the
//! models; what waits is translated together.

mod access;
mod connections;
mod detect;
mod document;
mod engine;
mod failure;
mod fields;
mod form;
pub mod html;
mod libre;
mod metrics;
mod numbering;
mod page;
mod routes;
mod server;
mod stream;
mod translations;
mod worker;

pub use access::Keys;
pub use routes::{Model, Reload};
pub use server::{Ended, Limits, Server};
