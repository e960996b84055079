//! From a corpus to batches: ids on disk, the order of an epoch, what a row is, and padded rectangles of ids.

pub mod batch;
pub mod batching;
pub mod dropout;
pub mod epoch;
pub mod example;
pub mod framing;
pub mod id_cache;
pub mod masking;
pub mod prefetch;
pub mod skip_gram;
pub mod window;
