//! The built program and its configuration, as a user meets them.

mod cli;
mod config;
mod step;
mod train;
