//! After the last step: scores, samples, and what to type next.

use std::io::{self, Write};

use burn::tensor::Device;
use polyglow_data::config::Split;
use polyglow_data::corpus::{Corpus, Pair};
use polyglow_model::Task;

use crate::activity::Activity;
use polyglow_train::config::Config;
use polyglow_train::predict::evaluation::{Evaluation, evaluate};
use polyglow_train::run::records::Records;
use polyglow_train::run::{RunDirectory, translator};

/// Translations that are shown at the end.
const SAMPLES: usize = 5;

/// Tests the best checkpoint on every test set, shows some translations, and says how to go on.
pub(super) fn finish(run: &RunDirectory, config: &Config, device: &Device) -> anyhow::Result<()> {
    let trained = [run.load("best", device)?];
    let translator = translator(&trained, config, device)?;
    let checkpoint = &trained[0].checkpoint;
    let step = checkpoint.state.step;
    let mut records = Records::open(&run.metrics_path(), u64::MAX)?;
    let mut out = io::stdout().lock();
    let (path, beam_size, task) = (checkpoint.path.display(), config.search.beam_size, translator.task());
    let test_names = config.data.test_names();
    if !test_names.is_empty() {
        let how = if task == Task::Translation { format!(", with beam {beam_size}") } else { String::new() };
        writeln!(out, "testing `{path}`, of step {step}{how}")?;
    }
    for &name in &test_names {
        let pairs: Vec<Pair> = Corpus::open(&config.data, Split::Test(name))?.pairs().collect::<Result<_, _>>()?;
        let mut activity = Activity::new();
        activity.show(format!("testing on {name}: {} examples", pairs.len()));
        let Evaluation { scores, hypotheses, .. } = evaluate(&translator, &pairs, config.train.tokenize)?;
        drop(activity);
        records.write_scores("test", name, step, &scores)?;
        let what = if task.is_classification() { "examples" } else { "sentences" };
        writeln!(out, "{name}: {} {what}  {scores}", pairs.len())?;
        if name == "test" {
            for (pair, hypothesis) in pairs.iter().zip(&hypotheses).take(SAMPLES) {
                writeln!(out, "  {}\n    -> {hypothesis}", pair.src)?;
                if *hypothesis != pair.tgt {
                    writeln!(out, "       {} (reference)", pair.tgt)?;
                }
            }
        }
    }
    records.flush()?;
    let (program, root) = (program(), run.root().display());
    writeln!(out, "\nnext:")?;
    let wider = match task {
        Task::Translation => {
            writeln!(out, "  {program} translate {root}      then type sentences, one a line")?;
            " --beam-size 8"
        }
        Task::Language => {
            writeln!(out, "  {program} generate {root}")?;
            ""
        }
        Task::Words => {
            writeln!(out, "  {program} embeddings {root} plot --out words.html")?;
            ""
        }
        Task::Labels => {
            writeln!(out, "  {program} classify {root}      then type sentences, one a line")?;
            ""
        }
        Task::Images => {
            writeln!(out, "  {program} classify {root} IMAGE.png")?;
            ""
        }
        Task::Masked => {
            writeln!(out, "  {program} train CONFIG --run {root} --fork NEW_RUN      to teach it labels")?;
            ""
        }
    };
    match test_names.first() {
        Some(&"test") => writeln!(out, "  {program} evaluate {root}{wider}")?,
        Some(name) => writeln!(out, "  {program} evaluate {root} --split {name}{wider}")?,
        None if config.data.valid.is_some() => writeln!(out, "  {program} evaluate {root} --split valid")?,
        None => {}
    }
    writeln!(out, "  {program} info {root}")?;
    Ok(())
}

/// How this program was called, so that what is printed can be typed: `target/release/polyglow` under `cargo run`.
fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "polyglow".to_owned())
}
