//! The interfaces of a server with a small model, as clients use them.

mod connections;
mod forms;
mod libretranslate;
mod log;
mod panics;
mod sampling;
mod serving;
mod setup;
mod translations;
mod unknown_words;
