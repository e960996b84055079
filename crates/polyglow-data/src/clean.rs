//! What is odd about pairs of text: the rules by which text is checked.
//!
//! [`findings`] has a table of detectors, one row each, and a collector that counts for all of them;
//! [`language`] tells by scripts and small words which language a text is in. Reports are made of
//! them where they are printed.

pub mod findings;
pub mod language;
