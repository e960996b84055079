//! An inspection as text: two tables of the splits, and one line for everything else.

use std::fmt::{self, Display, Formatter};

use polyglow_predict::wording::counted;
use polyglow_train::train::Bytes;

use super::warning::percent;
use super::{
    ExportReport, Finding, Inspection, PlanReport, SplitReport, TimeEstimate, VocabularyReport,
    duration,
};

/// The correlation of lengths that good text has: of their logarithms in characters it is 0.88 in
/// the training text of Multi30k (29 000 pairs) and 0.87 in Tatoeba's English and German (165 177
/// pairs).
const USUAL_CORRELATION: &str = "0.8 or more";

impl Display for Inspection {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write_splits(out, &self.splits)?;
        write_legend(out, &self.plan)?;
        write_sides(out, &self.splits)?;
        self.findings
            .iter()
            .try_for_each(|finding| write_finding(out, finding))?;
        if !self.findings.is_empty() {
            writeln!(out)?;
        }
        write_model(out, self)?;
        write_exports(out, &self.exports)?;
        write_machine(out, self)
    }
}

/// Behind `finding: `, with its examples below it.
fn write_finding(out: &mut Formatter<'_>, finding: &Finding) -> fmt::Result {
    let Finding {
        split,
        count,
        share,
        what,
        fate,
        examples,
        ..
    } = finding;
    writeln!(
        out,
        "{split}: {count} pairs ({}) {what}: {fate}",
        percent(*share)
    )?;
    for example in examples {
        let src = &example.src;
        let tgt = &example.tgt;
        let text = if src.is_empty() {
            tgt.clone()
        } else {
            format!("{src} | {tgt}")
        };
        let same = example
            .same_as
            .as_ref()
            .map(|there| format!("  = {there}"))
            .unwrap_or_default();
        let reason = example
            .reason
            .map(|reason| format!("  ({reason})"))
            .unwrap_or_default();
        let file = &example.file;
        let line = example.line;
        writeln!(out, "  {file}:{line}{same}{reason}  {text}")?;
    }
    Ok(())
}

impl Display for VocabularyReport {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self { src, tgt, shared } = self;
        if *shared {
            write!(out, "{src} tokens, shared")
        } else {
            write!(out, "{src} source and {tgt} target tokens")
        }
    }
}

fn width(splits: &[SplitReport]) -> usize {
    splits
        .iter()
        .map(|split| split.name.chars().count())
        .max()
        .unwrap_or(0)
        .max("SPLIT".len())
}

/// One line per split.
fn write_splits(out: &mut Formatter<'_>, splits: &[SplitReport]) -> fmt::Result {
    let width = width(splits);
    writeln!(
        out,
        "{:width$} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>12} {:>12}",
        "SPLIT",
        "PAIRS",
        "EMPTY",
        "TOO LONG",
        "RATIO",
        "DUPLICATES",
        "COPIES",
        "SRC IN TRAIN",
        "TGT IN TRAIN"
    )?;
    for split in splits {
        let SplitReport {
            name,
            pairs,
            empty,
            too_long,
            ratio,
            duplicates,
            copies,
            in_train,
            targets_in_train,
            ..
        } = split;
        let [in_train, targets] = [in_train, targets_in_train]
            .map(|found| found.map_or_else(|| "-".to_owned(), |count| count.to_string()));
        writeln!(
            out,
            "{name:width$} {pairs:>10} {empty:>10} {too_long:>10} {ratio:>10} {duplicates:>10} {copies:>10} {in_train:>12} {targets:>12}"
        )?;
    }
    Ok(())
}

/// Writes what the columns mean.
fn write_legend(out: &mut Formatter<'_>, plan: &PlanReport) -> fmt::Result {
    let PlanReport {
        max_len,
        max_length_ratio,
        ..
    } = plan;
    writeln!(
        out,
        "  EMPTY, TOO LONG (a side above {max_len} tokens) and RATIO (one side more than {max_length_ratio} times the other, in \
         tokens): left out of training; in a held-out set they count in the scores.\n  DUPLICATES are as an earlier pair, COPIES have a target that is their source: \
         trained on.\n  IN TRAIN: sentences of a held-out set that the training text has on that side, too."
    )
}

/// One line per split and side.
fn write_sides(out: &mut Formatter<'_>, splits: &[SplitReport]) -> fmt::Result {
    let width = width(splits);
    writeln!(
        out,
        "\n{:width$} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "SPLIT", "SIDE", "TOKENS", "MEAN", "LONGEST", "UNKNOWN", "CHANGED"
    )?;
    for split in splits {
        for (side, found) in [("source", &split.src), ("target", &split.tgt)] {
            let unknown = format!("{:.2} %", 100.0 * found.unknown_rate);
            writeln!(
                out,
                "{:width$} {side:>10} {:>10} {:>10.1} {:>10} {unknown:>10} {:>10}",
                split.name,
                found.side.tokens,
                found.mean_len,
                found.side.longest,
                found.changed_words
            )?;
        }
    }
    if splits
        .iter()
        .any(|split| split.src.changed_words + split.tgt.changed_words > 0)
    {
        writeln!(
            out,
            "  CHANGED: words that are cleaned or normalized before they are encoded, references before they are scored; \
             `tokenizer.normalization =\n  \"none\"` and `tokenizer.clean_text = false` keep them as they are."
        )?;
    }
    for split in splits {
        if let Some(correlation) = split.length_correlation {
            writeln!(
                out,
                "  {}: the lengths of both sides correlate by {correlation:.2}; {USUAL_CORRELATION} is usual where lines belong together.",
                split.name
            )?;
        }
    }
    writeln!(out)
}

fn write_model(out: &mut Formatter<'_>, inspection: &Inspection) -> fmt::Result {
    let Inspection {
        plan,
        vocabulary,
        parameters,
        links,
        batches,
        step,
        ..
    } = inspection;
    let PlanReport {
        task,
        device,
        on_host,
        has_kernels,
        max_tokens,
        pad_multiple,
        tokenize,
        ..
    } = plan;
    let how = match (on_host, has_kernels) {
        (false, _) => "in its own memory",
        (true, true) => "in host memory, with fused kernels",
        (true, false) => "in host memory, without fused kernels",
    };
    writeln!(out, "device      {device}, {how}")?;
    writeln!(
        out,
        "task        {task}: batches of at most {max_tokens} tokens, padded to multiples of {pad_multiple}"
    )?;
    if let Some(tokenize) = tokenize {
        writeln!(out, "BLEU        by the tokenizer `{tokenize}`")?;
    }
    writeln!(out, "vocabulary  {vocabulary}")?;
    writeln!(out, "model       {parameters} parameters")?;
    if let Some(links) = links {
        writeln!(out, "alignments  {links} links between tokens")?;
    }
    // On a GPU a shape takes time before the first step, which compiles its kernels.
    let shapes = if *on_host {
        String::new()
    } else {
        format!(" in {} shapes", batches.shapes)
    };
    writeln!(
        out,
        "batches     {} per epoch{shapes}, {:.1} % padding; {} steps are {:.1} epochs",
        batches.per_epoch,
        100.0 * batches.padding,
        batches.steps,
        batches.steps as f64 / batches.steps_per_epoch as f64
    )?;
    let shape = batches.largest;
    writeln!(
        out,
        "trial step  {:.2} s on {} x {} rows of {} source and {} target positions; loss {:.3} nats per token",
        step.seconds, step.micro_batches, shape.rows, shape.src_len, shape.tgt_len, step.loss
    )
}

/// Writes the formats that the model can be exported to, and why not to the others.
fn write_exports(out: &mut Formatter<'_>, exports: &[ExportReport]) -> fmt::Result {
    let taken: Vec<&str> = exports
        .iter()
        .filter(|export| export.refused.is_none())
        .map(|export| export.format)
        .collect();
    if !exports.is_empty() {
        writeln!(out, "exports to  {}", taken.join(", "))?;
    }
    for ExportReport { format, refused } in exports {
        if let Some(reason) = refused {
            writeln!(out, "            not {format}: {reason}")?;
        }
    }
    Ok(())
}

/// Formats how much of a resource is free, where the system reports it.
fn free_bytes(free: Option<u64>) -> String {
    free.map(|free| format!("; {} is free", Bytes(free)))
        .unwrap_or_default()
}

/// Writes the memory, disk space and time that the training takes, and what this machine has.
fn write_machine(out: &mut Formatter<'_>, inspection: &Inspection) -> fmt::Result {
    let Inspection {
        memory,
        available_memory,
        disk,
        time,
        ..
    } = inspection;
    writeln!(
        out,
        "memory      about {}: weights {}, gradients {}, optimizer {}, moving average {}, activations {}{}",
        Bytes(memory.total),
        Bytes(memory.weights),
        Bytes(memory.gradients),
        Bytes(memory.optimizer),
        Bytes(memory.ema),
        Bytes(memory.activations),
        free_bytes(*available_memory)
    )?;
    writeln!(
        out,
        "disk        up to {}: {} checkpoints of {} at once, an average of {}, encoded text {}{}",
        Bytes(disk.total),
        disk.checkpoints,
        Bytes(disk.checkpoint),
        Bytes(disk.average),
        Bytes(disk.cache),
        free_bytes(disk.free)
    )?;
    let TimeEstimate {
        timed_steps,
        step_seconds,
        target_tokens_per_second,
        steps,
        total_seconds,
        ..
    } = time;
    let validations = match time.validations {
        0 => String::new(),
        count => format!(
            ", and {} of {}",
            counted(count, "validation"),
            duration(time.validation_seconds)
        ),
    };
    writeln!(
        out,
        "time        about {} on this machine as busy as it is now: {steps} steps of {step_seconds:.3} s{validations}; \
         {target_tokens_per_second:.0} target tokens/s in {timed_steps} timed steps",
        duration(*total_seconds)
    )
}
