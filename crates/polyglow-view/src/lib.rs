//! Looks at texts and trained models: pages and pictures that need neither a server nor a network.
//!
//! | question | module | result |
//! |---|---|---|
//! | How did my runs go, and which one is better? | [`report`] | one HTML page |
//! | What did cleaning take from my text? | [`cleaning`] | one HTML page |
//! | Which tokens or patches does a model attend to? | [`attention`] | an HTML page, PNG or SVG |
//! | Which words, lines and contexts are similar? | [`embeddings`] | lists; a plot as HTML, PNG or SVG |
//!
//! Every page is one file with its own data, style and script. It follows the reader's light or
//! dark theme. Pictures for papers and slides are always dark on white.
//!
//! Functions return their results or write them to a path, and print nothing; warnings go through
//! `tracing`. Models are run by `polyglow-predict`.

pub mod attention;
pub mod cleaning;
mod document;
mod drawing;
pub mod embeddings;
pub mod report;

pub use drawing::Format;
