//! What is looked at: pages and pictures of trained models, without a server and without a network.
//!
//! [`report`] puts runs side by side on a page, [`attention`] shows where a model looks, and [`embeddings`] explores word
//! vectors.

pub mod attention;
pub mod embeddings;
pub mod report;
