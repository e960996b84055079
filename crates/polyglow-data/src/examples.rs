//! From a corpus to batches: ids on disk, the order of an epoch, the rows of a batch, and padded rectangles of ids.

pub mod batch;
#[cfg(feature = "training")]
pub mod batching;
#[cfg(feature = "training")]
pub mod dropout;
#[cfg(feature = "training")]
pub mod epoch;
pub mod example;
pub mod framing;
#[cfg(feature = "training")]
pub mod id_cache;
pub mod masking;
#[cfg(feature = "training")]
pub mod prefetch;
pub mod skip_gram;
#[cfg(feature = "training")]
pub mod window;
