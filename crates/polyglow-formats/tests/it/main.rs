//! The library, as a program that depends on it meets it.

mod converters;
mod formats;
