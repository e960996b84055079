//! An inspection as text: two tables of the splits, and one line for everything else.

use std::fmt::{self, Display, Formatter};

use super::{Inspection, PlanReport, SplitReport, VocabularyReport};

impl Display for Inspection {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write_splits(out, &self.splits)?;
        write_model(out, self)
    }
}

impl Display for VocabularyReport {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self { src, tgt, shared } = self;
        if *shared { write!(out, "{src} tokens, shared") } else { write!(out, "{src} source and {tgt} target tokens") }
    }
}

/// One line per split, and one per split and side.
fn write_splits(out: &mut Formatter<'_>, splits: &[SplitReport]) -> fmt::Result {
    let width = splits.iter().map(|split| split.name.chars().count()).max().unwrap_or(0).max("SPLIT".len());
    writeln!(
        out,
        "{:width$} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "SPLIT", "PAIRS", "EMPTY", "TOO LONG", "RATIO", "DUPLICATES", "COPIES", "IN TRAIN"
    )?;
    for split in splits {
        let SplitReport { name, pairs, empty, too_long, ratio, duplicates, copies, in_train, .. } = split;
        let in_train = in_train.map_or_else(|| "-".to_owned(), |count| count.to_string());
        writeln!(
            out,
            "{name:width$} {pairs:>10} {empty:>10} {too_long:>10} {ratio:>10} {duplicates:>10} {copies:>10} {in_train:>10}"
        )?;
    }
    writeln!(
        out,
        "\n{:width$} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "SPLIT", "SIDE", "TOKENS", "MEAN", "LONGEST", "UNKNOWN"
    )?;
    for split in splits {
        for (side, found) in [("source", &split.src), ("target", &split.tgt)] {
            let unknown = format!("{:.2} %", 100.0 * found.unknown_rate);
            writeln!(
                out,
                "{:width$} {side:>10} {:>10} {:>10.1} {:>10} {unknown:>10}",
                split.name, found.side.tokens, found.mean_len, found.side.longest
            )?;
        }
    }
    writeln!(out)
}

fn write_model(out: &mut Formatter<'_>, inspection: &Inspection) -> fmt::Result {
    let Inspection { plan, vocabulary, parameters, links, batches, memory, step, .. } = inspection;
    let PlanReport { task, device, on_host, has_kernels, max_tokens, pad_multiple, tokenize } = plan;
    let memory_of = if *on_host { "in host memory" } else { "in its own memory" };
    let kernels = if *has_kernels { "with fused kernels" } else { "without fused kernels" };
    writeln!(out, "device      {device}, {memory_of}, {kernels}")?;
    writeln!(out, "task        {task}: batches of at most {max_tokens} tokens, padded to multiples of {pad_multiple}")?;
    if let Some(tokenize) = tokenize {
        writeln!(out, "BLEU        by the tokenizer `{tokenize}`")?;
    }
    writeln!(out, "vocabulary  {vocabulary}")?;
    writeln!(out, "model       {parameters} parameters")?;
    if let Some(links) = links {
        writeln!(out, "alignments  {links} links between tokens")?;
    }
    // On a GPU a shape takes time before the first step, which compiles its kernels.
    let shapes = if *on_host { String::new() } else { format!(" in {} shapes", batches.shapes) };
    writeln!(
        out,
        "batches     {} per epoch{shapes}, {:.1} % padding; {} steps are {:.1} epochs",
        batches.per_epoch,
        100.0 * batches.padding,
        batches.steps,
        batches.steps as f64 / batches.steps_per_epoch as f64
    )?;
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    writeln!(
        out,
        "memory      about {:.0} MiB: weights {:.0}, gradients {:.0}, optimizer {:.0}, moving average {:.0}, activations {:.0}",
        mebibytes(memory.total),
        mebibytes(memory.weights),
        mebibytes(memory.gradients),
        mebibytes(memory.optimizer),
        mebibytes(memory.ema),
        mebibytes(memory.activations)
    )?;
    let shape = batches.largest;
    writeln!(
        out,
        "trial step  {:.2} s on {} x {} rows of {} source and {} target positions; loss {:.3} nats per token",
        step.seconds, step.micro_batches, shape.rows, shape.src_len, shape.tgt_len, step.loss
    )
}
