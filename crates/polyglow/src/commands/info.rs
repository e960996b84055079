//! `polyglow info`: the content of a run directory.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use polyglow_metrics::Measure;
use polyglow_model::ModelConfig;
use polyglow_predict::measures::recorded;
use polyglow_predict::wording::counted;
use polyglow_train::config::{BestMetric, Config};
use polyglow_train::run::{
    Best, Checkpoint, Checkpoints, Program, RunDirectory, TrainState, records,
};
use serde::Serialize;
use serde_json::Value;

use crate::inspection::VocabularyReport;

/// Width of a column of scores, at least.
const LEAST_WIDTH: usize = 8;

/// The arguments of `polyglow info`.
#[derive(Args)]
pub(crate) struct InfoArgs {
    /// Directory of the run
    run: PathBuf,
    /// Print all of it as JSON
    #[arg(long)]
    json: bool,
}

/// The JSON report. What a run has not reached yet is null or empty.
#[derive(Serialize)]
struct Report<'a> {
    run: &'a Path,
    config: Config,
    /// Number of trained values.
    parameters: Option<u64>,
    vocabulary: Option<VocabularyReport>,
    /// The state of training at the newest checkpoint.
    state: Option<StateReport>,
    checkpoints: CheckpointsReport,
    /// The machine of each process that trains or trained last, if there were several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<String>,
    /// The newest record of training.
    train: Option<Value>,
    /// Every validation, in order.
    validations: Vec<Value>,
    /// Every test, in order.
    tests: Vec<Value>,
}

/// The state of training at the newest checkpoint.
#[derive(Serialize)]
struct StateReport {
    step: u64,
    /// Epochs done.
    epoch: u64,
    /// Target tokens seen, without padding.
    tokens: u64,
    best: Option<Best>,
    best_metric: Option<BestMetric>,
    /// Validations since the best.
    stale_validations: u64,
    /// The program that made the newest steps.
    program: Option<Program>,
}

impl StateReport {
    fn new(state: &TrainState, best_metric: Option<BestMetric>) -> Self {
        let &TrainState {
            step,
            epoch,
            tokens,
            best,
            stale_validations,
            ref program,
            ..
        } = state;
        Self {
            step,
            epoch,
            tokens,
            best,
            best_metric,
            stale_validations,
            program: program.clone(),
        }
    }
}

/// The checkpoints of a run, by their steps.
#[derive(Serialize)]
struct CheckpointsReport {
    /// The steps that have one, in order.
    steps: Vec<u64>,
    /// The step of the checkpoint `best`.
    best: Option<u64>,
    /// The newest step in the checkpoint `average`.
    average: Option<u64>,
    /// The newest step in each other checkpoint that was made of these, by name.
    others: BTreeMap<String, u64>,
}

/// Prints a summary of the config, sizes, the state of training, and the results so far.
///
/// # Errors
/// There is no such run, or something in it cannot be read.
pub(crate) fn run(args: &InfoArgs) -> anyhow::Result<()> {
    let run = RunDirectory::existing(&args.run)?;
    let report = read(&run)?;
    let mut out = io::stdout().lock();
    if args.json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?);
    }
    write_config(&mut out, &run, &report)?;
    write_state(&mut out, &report)?;
    write_results(&mut out, &report)
}

fn read(run: &RunDirectory) -> anyhow::Result<Report<'_>> {
    let config = run.config()?;
    let checkpoints = run.checkpoints(1);
    let best_metric = config.train.best_metric;
    let newest = checkpoints.get("last")?;
    // Training creates the tokenizers after the directory, so a new run may have none.
    let vocabulary = run
        .tokenizers()
        .ok()
        .map(|tokenizers| VocabularyReport::new(&tokenizers));
    let records = records::read(&run.metrics_path())?;
    let train = of_kind(&records, "train").pop();
    // The hosts of an earlier training of several processes are not those of this one.
    let has_ranks = train
        .as_ref()
        .is_some_and(|record| record.get("ranks").is_some());
    let ranks = of_kind(&records, "ranks").pop().filter(|_| has_ranks);
    Ok(Report {
        run: run.root(),
        config,
        parameters: newest.as_ref().map(Checkpoint::parameters).transpose()?,
        vocabulary,
        state: newest.map(|checkpoint| StateReport::new(&checkpoint.state, best_metric)),
        checkpoints: CheckpointsReport::read(&checkpoints)?,
        hosts: ranks.map(|ranks| hosts(&ranks)).unwrap_or_default(),
        train,
        validations: of_kind(&records, "valid"),
        tests: of_kind(&records, "test"),
    })
}

impl CheckpointsReport {
    /// Reads which checkpoints there are; one that cannot be read is left out with a warning, if
    /// the training does not need it.
    fn read(checkpoints: &Checkpoints) -> anyhow::Result<Self> {
        let mut others = BTreeMap::new();
        for name in checkpoints.named()? {
            if name == "average" {
                continue;
            }
            match step(checkpoints, &name) {
                Ok(Some(step)) => drop(others.insert(name, step)),
                Ok(None) => {}
                Err(error) => tracing::warn!("{error:#}"),
            }
        }
        Ok(Self {
            steps: checkpoints.steps()?,
            best: step(checkpoints, "best")?,
            average: step(checkpoints, "average")?,
            others,
        })
    }
}

/// Returns the step of a checkpoint; `None` if there is none of that name.
fn step(checkpoints: &Checkpoints, name: &str) -> polyglow_train::Result<Option<u64>> {
    let checkpoint = checkpoints.get(name)?;
    Ok(checkpoint.map(|checkpoint| checkpoint.state.step))
}

/// Returns the records of a kind, in order.
fn of_kind(records: &[Value], kind: &str) -> Vec<Value> {
    let matching = records.iter().filter(|record| record["kind"] == kind);
    matching.cloned().collect()
}

/// The machines in a record of ranks.
fn hosts(ranks: &Value) -> Vec<String> {
    ranks["hosts"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|host| Some(host.as_str()?.to_owned()))
        .collect()
}

/// `2 on a, 2 on b`.
fn count_hosts(hosts: &[String]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for host in hosts {
        match counts.iter_mut().find(|(known, _)| known == host) {
            Some((_, count)) => *count += 1,
            None => counts.push((host, 1)),
        }
    }
    counts
        .into_iter()
        .map(|(host, count)| format!("{count} on {host}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The architecture and its sizes: `transformer, 2+2 layers, d_model 128, d_ff 256, heads 4`.
fn describe(model: &ModelConfig) -> String {
    if let Some(own) = &model.own {
        return format!("{}, {}", model.arch.name(), own.table());
    }
    let encoder = model
        .num_encoder_layers
        .map_or(String::new(), |layers| format!("{layers}+"));
    let sizes = [
        ("d_model", model.d_model),
        ("d_ff", model.d_ff),
        ("heads", model.num_heads),
    ];
    let sizes = sizes
        .into_iter()
        .filter_map(|(name, size)| Some(format!(", {name} {}", size?)));
    let layers = model
        .num_decoder_layers
        .map_or(String::new(), |layers| layers.to_string());
    let layers = format!("{encoder}{layers}");
    let layers = layers.trim_end_matches('+');
    let layers = if layers.is_empty() {
        String::new()
    } else {
        format!(", {layers} layers")
    };
    format!("{}{layers}{}", model.arch.name(), sizes.collect::<String>())
}

fn write_config(
    out: &mut impl Write,
    run: &RunDirectory,
    report: &Report<'_>,
) -> anyhow::Result<()> {
    let Config {
        seed,
        device,
        data,
        tokenizer,
        model,
        train,
        ..
    } = &report.config;
    writeln!(out, "config       {}", run.config_path().display())?;
    let name = data
        .corpus
        .as_ref()
        .map_or(String::new(), |name| format!("{name}, "));
    let content = report.config.content();
    // An imported run names no languages.
    match data.languages() {
        Ok((src, tgt)) if content.is_parallel() => {
            writeln!(out, "data         {name}{src} to {tgt}")?;
        }
        _ => writeln!(out, "data         {name}{}", content.description())?,
    }
    let name = tokenizer.kind.name();
    match &report.vocabulary {
        Some(sizes) => writeln!(out, "tokenizer    {name}, {sizes}")?,
        None => writeln!(out, "tokenizer    {name}, not created yet")?,
    }
    write!(out, "model        {}", describe(model))?;
    match report.parameters {
        Some(parameters) => writeln!(out, ", {parameters} parameters")?,
        None => writeln!(out)?,
    }
    let length = match (train.max_steps, train.max_epochs) {
        (Some(steps), Some(epochs)) => format!("{steps} steps or {epochs} epochs"),
        (Some(steps), None) => format!("{steps} steps"),
        (None, epochs) => format!("{} epochs", epochs.unwrap_or(0)),
    };
    let accumulate = train.accumulate_steps;
    writeln!(
        out,
        "training     {length} of {accumulate} x {} tokens, seed {seed}, on {device}",
        train.max_tokens
    )?;
    Ok(())
}

fn write_state(out: &mut impl Write, report: &Report<'_>) -> anyhow::Result<()> {
    let Some(state) = &report.state else {
        writeln!(out, "state        no checkpoint yet")?;
        return Ok(());
    };
    let StateReport {
        step,
        epoch,
        tokens,
        best,
        best_metric,
        stale_validations,
        program,
    } = state;
    writeln!(
        out,
        "state        step {step}, {} done, {tokens} target tokens",
        counted(*epoch, "epoch")
    )?;
    if let Some(program) = program {
        writeln!(out, "written by   {program}")?;
    }
    if let Some(best) = best {
        let Best { step, score, .. } = best;
        let measure = best_metric.map(|metric| metric.0.measure);
        let title = measure.map_or("score", |measure| measure.title);
        let decimals = measure.map_or(2, |measure| measure.decimals);
        writeln!(
            out,
            "best         step {step}, {title} {score:.decimals$}; validations since: {stale_validations}"
        )?;
    }
    let CheckpointsReport {
        steps,
        average,
        others,
        ..
    } = &report.checkpoints;
    let mut names: Vec<String> = steps.iter().map(|step| format!("step-{step}")).collect();
    names.extend(average.map(|step| format!("average (to step {step})")));
    names.extend(
        others
            .iter()
            .map(|(name, step)| format!("{name} (of step {step})")),
    );
    writeln!(out, "checkpoints  {}", names.join(", "))?;
    if !report.hosts.is_empty() {
        writeln!(
            out,
            "ranks        {}: {}",
            report.hosts.len(),
            count_hosts(&report.hosts)
        )?;
    }
    if let Some(record) = &report.train {
        write_newest(out, record)?;
    }
    Ok(())
}

/// Writes the newest record of training.
fn write_newest(out: &mut impl Write, record: &Value) -> io::Result<()> {
    // JSON has no NaN: it is null there.
    let [loss, perplexity, lr, rate] = ["loss", "perplexity", "lr", "tokens_per_second"]
        .map(|key| record[key].as_f64().unwrap_or(f64::NAN));
    writeln!(
        out,
        "trained      step {}: loss {loss:.3}, perplexity {perplexity:.2}, learning rate {lr:.2e}, {rate:.0} target tokens per second",
        record["step"]
    )
}

/// One line per validation and test.
fn write_results(out: &mut impl Write, report: &Report<'_>) -> anyhow::Result<()> {
    if report.validations.is_empty() && report.tests.is_empty() {
        return Ok(());
    }
    let records: Vec<&Value> = report.validations.iter().chain(&report.tests).collect();
    let columns: Vec<(Measure, usize)> = recorded(records.iter().copied())
        .map(|measure| (measure, measure.title.len().max(LEAST_WIDTH)))
        .collect();
    write!(out, "\n{:12} {:>8}", "SPLIT", "STEP")?;
    columns.iter().try_for_each(|(measure, width)| {
        write!(out, " {:>width$}", measure.title.to_uppercase())
    })?;
    writeln!(out)?;
    for record in records {
        let split = record["split"].as_str().unwrap_or_default();
        let step = record["step"].as_u64().unwrap_or(0);
        write!(out, "{split:12} {step:>8}")?;
        for (Measure { key, decimals, .. }, width) in &columns {
            let score = record[key]
                .as_f64()
                .map_or_else(|| "-".to_owned(), |score| format!("{score:.decimals$}"));
            write!(out, " {score:>width$}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_counted_by_machine() {
        let ranks = serde_json::json!({"kind": "ranks", "hosts": ["a", "b", "a"]});
        assert_eq!(count_hosts(&hosts(&ranks)), "2 on a, 1 on b");
    }
}
