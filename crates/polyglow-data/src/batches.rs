//! From a corpus to batches: ids on disk, the order of an epoch, the rows of a batch, and padded
//! rectangles of ids.

#[cfg(feature = "training")]
pub mod augmentation;
pub mod batch;
#[cfg(feature = "training")]
pub mod batching;
pub mod example;
#[cfg(feature = "training")]
pub mod id_cache;
pub mod masking;
pub mod noise;
pub mod padded;
#[cfg(feature = "training")]
pub mod prefetch;
#[cfg(feature = "training")]
pub mod segmenter;
pub mod skip_gram;
#[cfg(feature = "training")]
pub mod sources;
#[cfg(feature = "training")]
pub mod window;
