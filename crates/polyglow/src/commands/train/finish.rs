//! After the last step: scores, samples, and what to type next.

use std::io::{self, Write};
use std::path::Path;

use polyglow_data::config::Split;
use polyglow_data::pair::Pair;
use polyglow_model::search::SearchRequest;
use polyglow_predict::TaskFacts;
use polyglow_predict::evaluation::Evaluation;
use polyglow_predict::group::alone;
use polyglow_predict::runner::Runner;
use polyglow_predict::samples::spread;
use polyglow_predict::wording::shell_word;
use polyglow_train::Plan;
use polyglow_train::config::Config;
use polyglow_train::run::records::Records;
use polyglow_train::run::{RunDirectory, runner};
use polyglow_train::tasks::{HeldOut, evaluate, held_out_span};

use crate::activity::Activity;

/// Translations that are shown at the end.
const SAMPLES: usize = 5;

/// Tests the best checkpoint on every test set, shows some translations, and suggests what to do
/// next.
///
/// All ranks take part if all see the same checkpoint; where one does not, rank 0 does it alone.
pub(super) fn finish(run: &RunDirectory, plan: &Plan) -> anyhow::Result<()> {
    let group = &plan.group;
    let best = run
        .weights("best")
        .ok()
        .and_then(|(checkpoint, _)| Some(checkpoint.model_hash()?.to_owned()));
    let same = group
        .gather(best.clone())?
        .iter()
        .all(|other| other.is_some() && *other == best);
    let plan = &if same {
        plan.clone()
    } else {
        plan.clone().with_group(alone())
    };
    if !group.is_first() && !same {
        return Ok(());
    }
    let trained = run.load("best", &plan.device)?;
    let path = trained.checkpoint.path.clone();
    let step = trained.checkpoint.state.step;
    let runner = runner(vec![trained], plan)?;
    let mut out: Box<dyn Write> = if group.is_first() {
        Box::new(io::stdout().lock())
    } else {
        Box::new(io::sink())
    };
    test(&mut out, run, plan, &runner, (&path, step))?;
    Ok(write_next(
        &mut out,
        run,
        &plan.config,
        runner.task.facts(),
    )?)
}

/// Scores a checkpoint on every test set, and shows some translations of the set `test`.
fn test(
    out: &mut impl Write,
    run: &RunDirectory,
    plan: &Plan,
    runner: &Runner,
    (path, step): (&Path, u64),
) -> anyhow::Result<()> {
    let config = &plan.config;
    let beam_size = runner.search_for(&SearchRequest::default())?.beam_size;
    let facts = runner.task.facts();
    let test_names = config.data.test_names();
    if !test_names.is_empty() {
        let path = path.display();
        let how = if facts.has_references() {
            format!(", with beam {beam_size}")
        } else {
            String::new()
        };
        writeln!(out, "testing `{path}`, of step {step}{how}")?;
    }
    let mut records = if plan.group.is_first() {
        Records::open(run, u64::MAX, config.train.tensorboard)?
    } else {
        Records::nowhere()
    };
    for name in test_names {
        let corpus = run.open_set(config, Split::Test(name))?;
        let held_out = HeldOut::read(&corpus)?;
        let _text = held_out_span(&corpus).entered();
        let mut activity = Activity::new();
        activity.show(format!("testing on {name}: {} examples", held_out.len()));
        let bleu = config
            .train
            .bleu_tokenizer(held_out.pairs().iter().map(|pair| pair.tgt.as_str()))?;
        let Evaluation {
            scores,
            hypotheses,
            num_scored,
            ..
        } = evaluate(runner, &held_out, &bleu.into())?;
        drop(activity);
        records.write_scores("test", name, step, &scores)?;
        let what = facts.examples;
        writeln!(out, "{name}: {num_scored} {what}  {scores}")?;
        if name == "test" {
            write_samples(out, held_out.pairs(), &hypotheses)?;
        }
    }
    Ok(records.flush()?)
}

fn write_samples(out: &mut impl Write, pairs: &[Pair], hypotheses: &[String]) -> io::Result<()> {
    let samples = spread(pairs, SAMPLES).into_iter();
    for (pair, hypothesis) in
        samples.filter_map(|index| Some((&pairs[index], hypotheses.get(index)?)))
    {
        writeln!(out, "  {}\n    -> {hypothesis}", pair.src)?;
        if *hypothesis != pair.tgt {
            writeln!(out, "       {} (reference)", pair.tgt)?;
        }
    }
    Ok(())
}

/// Commands that can be typed next.
fn write_next(
    out: &mut impl Write,
    run: &RunDirectory,
    config: &Config,
    facts: &TaskFacts,
) -> io::Result<()> {
    let program = program();
    let root = shell_word(run.root());
    let TaskFacts { command, note, .. } = *facts;
    let command = command.replace("{run}", &root);
    let note = if note.is_empty() {
        String::new()
    } else {
        format!("      {note}")
    };
    writeln!(out, "\nnext:\n  {program} {command}{note}")?;
    let wider = if facts.has_references() {
        " --beam-size 8"
    } else {
        ""
    };
    match config.data.test_names().first() {
        Some(&"test") => writeln!(out, "  {program} evaluate {root}{wider}")?,
        Some(name) => writeln!(
            out,
            "  {program} evaluate {root} --split {}{wider}",
            shell_word(name)
        )?,
        None if config.data.has_valid() => {
            writeln!(out, "  {program} evaluate {root} --split valid")?;
        }
        None => {}
    }
    writeln!(out, "  {program} info {root}")
}

/// Returns the name that this program was called by, so that what is printed can be typed:
/// `target/release/polyglow` under `cargo run`.
fn program() -> String {
    shell_word(
        std::env::args_os()
            .next()
            .unwrap_or_else(|| "polyglow".into()),
    )
}
