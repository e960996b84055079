//! The crate against sacreBLEU: on committed texts, and on random ones where Python has it.

mod arguments;
mod golden;
mod oracle;
mod segmentation;
mod significance;
