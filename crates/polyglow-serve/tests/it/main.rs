//! The interfaces of a server with a small model, as clients use them.

mod connections;
mod libretranslate;
mod log;
mod panics;
mod serving;
mod setup;
mod translations;
