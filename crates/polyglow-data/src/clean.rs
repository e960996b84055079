//! The rules by which pairs of text are checked and cleaned.
//!
//! [`findings`] has a table of detectors, one row each, and a collector that counts for all of
//! them; [`language`] guesses the language of a text by scripts and small words. Reports are made
//! of them where they are printed.
//!
//! [`cleaning`] says which pairs of a corpus stay, in three readings:
//!
//! 1. [`cleaner`] looks at each pair once: [`repair`] what can be read, [`rules`] that look at the pair
//!    alone, sentences that are [`held_out`], duplicates and templates.
//! 2. [`own_language`] finds sides in another language, and exchanges those that stand on the wrong side.
//! 3. [`lexical`] finds sides that do not say the same.
//!
//! [`links`] between the words of examples show why.
//!
//! Of each pair all [`reasons`] against it are kept. A [group](crate::config::FilterGroup) of filters
//! can be left out ([`filtered`]). A new rule is a row of the table in [`rules`].

pub mod cleaner;
pub mod cleaning;
pub mod filtered;
pub mod findings;
mod group;
pub mod held_out;
pub mod language;
pub mod lexical;
pub mod links;
pub mod own_language;
pub mod profile;
pub mod reasons;
pub mod repair;
pub mod report;
pub mod rules;
pub mod sample;
pub mod words;
