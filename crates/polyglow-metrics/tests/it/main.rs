//! The crate against sacreBLEU and seqeval: on committed texts, and against sacreBLEU on random ones
//! where Python has it.

mod arguments;
mod golden;
mod oracle;
mod segmentation;
mod significance;
mod spans;
