//! The interfaces of a server with a small model, as clients use them.

mod libretranslate;
mod serving;
mod setup;
mod translations;
